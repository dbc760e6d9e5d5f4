-- Random reads of one file, for sysbench.
--
-- sysbench's own fileio opens its files for writing, whatever it is to do with
-- them, which no read-only mount allows. Threads, random numbers and times are
-- sysbench's; only the reads are ours, as those of its `rndrd` are: pread(2).

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
