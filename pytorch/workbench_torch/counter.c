/* Counts what a process has allocated, for measuring the memory of tensors on a CPU.
 *
 * Preloaded (LD_PRELOAD) it stands before glibc's allocator. Counted are aligned blocks of any size,
 * which is how PyTorch allocates storages and oneDNN its scratch, and other blocks of 64 KiB and more:
 * large buffers inside kernels, but not the small objects of the interpreter. Sizes are those asked for,
 * so that nothing depends on how the allocator rounds.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

#define LARGE ((size_t)65536)
#define SLOTS ((size_t)1 << 20)

/* Open addressing with linear probing; deleting moves later entries back. */
static struct { void *block; size_t size; } table[SLOTS];
static atomic_flag busy = ATOMIC_FLAG_INIT;
static size_t entries, current, peak, lost;

static void enter(void) { while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) {} }
static void leave(void) { atomic_flag_clear_explicit(&busy, memory_order_release); }

static size_t home(const void *p) { return (((uintptr_t)p >> 4) * UINT64_C(0x9E3779B97F4A7C15)) >> 44; }

static void add(void *p, size_t n) {
  if (!p) return;
  enter();
  if (entries > SLOTS / 2) {
    lost += n;
  } else {
    size_t i = home(p);
    while (table[i].block) i = (i + 1) % SLOTS;
    table[i].block = p;
    table[i].size = n;
    entries++;
    current += n;
    if (current > peak) peak = current;
  }
  leave();
}

/* Forgets p, if it is counted, and returns its size. */
static size_t take(void *p) {
  size_t n = 0;
  if (!p) return 0;
  enter();
  size_t i = home(p);
  while (table[i].block && table[i].block != p) i = (i + 1) % SLOTS;
  if (table[i].block) {
    n = table[i].size;
    current -= n;
    entries--;
    for (size_t j = (i + 1) % SLOTS; table[j].block; j = (j + 1) % SLOTS)
      if ((j - home(table[j].block)) % SLOTS >= (j - i) % SLOTS) {
        table[i] = table[j];
        i = j;
      }
    table[i].block = NULL;
  }
  leave();
  return n;
}

void *malloc(size_t n) {
  void *p = __libc_malloc(n);
  if (n >= LARGE) add(p, n);
  return p;
}

void *calloc(size_t k, size_t n) {
  void *p = __libc_calloc(k, n);
  if (p && k * n >= LARGE) add(p, k * n);
  return p;
}

void *realloc(void *old, size_t n) {
  size_t before = take(old);
  void *p = __libc_realloc(old, n);
  if (!p && n) { /* the old block stays */
    if (before) add(old, before);
  } else if (n >= LARGE) {
    add(p, n);
  }
  return p;
}

static void *aligned(size_t alignment, size_t n) {
  void *p = __libc_memalign(alignment, n);
  add(p, n);
  return p;
}

void *memalign(size_t alignment, size_t n) { return aligned(alignment, n); }
void *aligned_alloc(size_t alignment, size_t n) { return aligned(alignment, n); }

int posix_memalign(void **out, size_t alignment, size_t n) {
  void *p = aligned(alignment, n);
  if (!p) return ENOMEM;
  *out = p;
  return 0;
}

void free(void *p) {
  take(p);
  __libc_free(p);
}

size_t workbench_current(void) { return current; }
size_t workbench_peak(void) { return peak; }
size_t workbench_lost(void) { return lost; }
void workbench_reset(void) {
  enter();
  peak = current;
  leave();
}
