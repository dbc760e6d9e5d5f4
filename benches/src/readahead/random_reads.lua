-- Random reads of one file, for sysbench.
--
-- sysbench's own fileio opens its files for writing even if it only reads them,
-- which a read-only mount does not allow. This script only replaces its reads,
-- and uses pread(2) as the mode `rndrd` does. sysbench still provides the
-- threads, the random numbers and the times.

local ffi = require("ffi")

ffi.cdef [[
int open(const char *path, int flags, ...);
int64_t pread(int descriptor, void *buffer, size_t count, int64_t offset);
]]

sysbench.cmdline.options = {
    ["file"] = { "The file to read", "" },
    ["read-bytes"] = { "The part of it that is read", 0 },
    ["block-bytes"] = { "What is read at once", 65536 },
}

local descriptor, buffer, blocks

function thread_init()
    descriptor = ffi.C.open(sysbench.opt.file, 0)
    assert(descriptor >= 0, "cannot open the file")
    buffer = ffi.new("char[?]", sysbench.opt.block_bytes)
    blocks = math.floor(sysbench.opt.read_bytes / sysbench.opt.block_bytes)
end

function event()
    local bytes = sysbench.opt.block_bytes
    local offset = sysbench.rand.default(0, blocks - 1) * bytes
    assert(ffi.C.pread(descriptor, buffer, bytes, offset) == bytes, "cannot read the file")
end
