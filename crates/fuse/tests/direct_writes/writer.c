/*
 * Writes a file repeatedly with O_DIRECT, while threads read it through the page cache. After each
 * round has completed, a read through the page cache must return what the round wrote.
 *
 * writer FILE (aio|pwrite) (read|mmap) ROUNDS
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PIECE_BYTES (16 << 10)
#define PIECES 8
#define FILE_BYTES (PIECE_BYTES * PIECES)
#define READERS 2

static int cached;
static unsigned char *mapped;
static atomic_int done;

static void fail(const char *what) {
    perror(what);
    exit(2);
}

/* Reads a piece, from the mapping if one exists. */
static void read_piece(unsigned char *to, int piece) {
    off_t offset = (off_t)piece * PIECE_BYTES;
    if (mapped)
        memcpy(to, mapped + offset, PIECE_BYTES);
    else if (pread(cached, to, PIECE_BYTES, offset) != PIECE_BYTES)
        fail("pread");
}

static void *read_on(void *number) {
    unsigned char *memory = malloc(PIECE_BYTES);
    for (unsigned next = (unsigned)(long)number; !atomic_load(&done); next++)
        read_piece(memory, next % PIECES);
    free(memory);
    return NULL;
}

static void write_asynchronously(int file, unsigned char *content) {
    static aio_context_t context;
    struct iocb requests[PIECES], *list[PIECES];
    struct io_event events[PIECES];
    if (!context && syscall(SYS_io_setup, PIECES, &context) != 0)
        fail("io_setup");
    memset(requests, 0, sizeof requests);
    for (int piece = 0; piece < PIECES; piece++) {
        requests[piece].aio_lio_opcode = IOCB_CMD_PWRITE;
        requests[piece].aio_fildes = file;
        requests[piece].aio_buf = (unsigned long)content;
        requests[piece].aio_nbytes = PIECE_BYTES;
        requests[piece].aio_offset = (long long)piece * PIECE_BYTES;
        list[piece] = &requests[piece];
    }
    if (syscall(SYS_io_submit, context, PIECES, list) != PIECES)
        fail("io_submit");
    if (syscall(SYS_io_getevents, context, PIECES, PIECES, events, NULL) != PIECES)
        fail("io_getevents");
    for (int piece = 0; piece < PIECES; piece++)
        if (events[piece].res != PIECE_BYTES) {
            fprintf(stderr, "a write returned %lld\n", (long long)events[piece].res);
            exit(2);
        }
}

static void write_synchronously(int file, unsigned char *content) {
    for (int piece = 0; piece < PIECES; piece++)
        if (pwrite(file, content, PIECE_BYTES, (off_t)piece * PIECE_BYTES) != PIECE_BYTES)
            fail("pwrite");
}

int main(int count, char **arguments) {
    if (count != 5)
        return 2;
    int is_asynchronous = strcmp(arguments[2], "aio") == 0;
    int direct = open(arguments[1], O_RDWR | O_CREAT | O_DIRECT, 0600);
    cached = open(arguments[1], O_RDONLY);
    if (direct < 0 || cached < 0)
        fail("open");
    unsigned char *content, *found = malloc(PIECE_BYTES);
    if (posix_memalign((void **)&content, 4096, PIECE_BYTES) != 0)
        fail("posix_memalign");
    memset(content, 0, PIECE_BYTES);
    write_synchronously(direct, content);
    if (strcmp(arguments[3], "mmap") == 0) {
        mapped = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, cached, 0);
        if (mapped == MAP_FAILED)
            fail("mmap");
    }
    pthread_t threads[READERS];
    for (long number = 0; number < READERS; number++)
        if (pthread_create(&threads[number], NULL, read_on, (void *)(number * PIECES / READERS)))
            fail("pthread_create");
    int stale = 0;
    for (int round = 1; round <= atoi(arguments[4]) && !stale; round++) {
        memset(content, round % 255 + 1, PIECE_BYTES);
        if (is_asynchronous)
            write_asynchronously(direct, content);
        else
            write_synchronously(direct, content);
        for (int piece = 0; piece < PIECES && !stale; piece++) {
            read_piece(found, piece);
            stale = memcmp(found, content, PIECE_BYTES) != 0;
        }
        if (stale)
            printf("stale after round %d\n", round);
    }
    atomic_store(&done, 1);
    for (int number = 0; number < READERS; number++)
        pthread_join(threads[number], NULL);
    return stale;
}
