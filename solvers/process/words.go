// Package process is the common part of processes of this program that do risky work for a parent: solves
// ([workbench/solvers/isolate]) and tasks of sweeps. They answer through a pipe of their own, run in a process
// group of their own, have a memory limit, and their parent keeps the end of their standard error.
package process

import (
	"strings"
	"sync"
)

// OutOfMemory reports whether the standard error of a process shows that it ran out of memory. It recognises the
// messages of Go's runtime, also for threads, of C++ and of the sanitizers.
func OutOfMemory(words string) bool {
	for _, s := range []string{"out of memory", "cannot allocate memory", "bad_alloc", "failed to allocate", "pthread_create failed"} {
		if strings.Contains(words, s) {
			return true
		}
	}
	return false
}

// LastWords keeps the first and the last bytes written to it: Go prints the cause first and then dumps its stacks;
// C++ libraries print it last.
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
