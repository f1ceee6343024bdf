// Package process is what processes of this program that do dangerous work in the
// parent's stead have in common: solves ([workbench/solvers/isolate]) and tasks
// of sweeps. They answer through a pipe of their own, live in a process group of
// their own, have a limit of memory, and leave last words.
package process

import (
	"strings"
	"sync"
)

// OutOfMemory recognises a process that could not have more memory by its last
// words: those of Go's runtime, which may also miss room for a thread, of C++'s,
// and of the sanitizers'.
func OutOfMemory(words string) bool {
	for _, s := range []string{"out of memory", "cannot allocate memory", "bad_alloc", "failed to allocate", "pthread_create failed"} {
		if strings.Contains(words, s) {
			return true
		}
	}
	return false
}

// LastWords keeps the first and the last bytes written to it: Go says what
// happened first and dumps its stacks then, C++ libraries say it last.
type LastWords struct {
	mu         sync.Mutex
	head, tail []byte
	cut        bool
}

// mostWords is the size of either part.
const mostWords = 2048

func (l *LastWords) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(b)
	k := min(n, mostWords-len(l.head))
	l.head = append(l.head, b[:k]...)
	l.tail = append(l.tail, b[k:]...)
	if over := len(l.tail) - mostWords; over > 0 {
		l.tail, l.cut = append(l.tail[:0], l.tail[over:]...), true
	}
	return n, nil
}

func (l *LastWords) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := string(l.head)
	if l.cut {
		text += "\n…\n"
	}
	return strings.ToValidUTF8(text+string(l.tail), "?")
}
