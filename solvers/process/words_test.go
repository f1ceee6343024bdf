package process

import (
	"fmt"
	"strings"
	"testing"
)

// The first and the last words are kept, however many come in between, and at
// whatever lengths they are written.
func TestLastWords(t *testing.T) {
	for _, size := range []int{1, 7, mostWords - 1, mostWords, 3 * mostWords} {
		for _, length := range []int{0, 1, mostWords, 2 * mostWords, 2*mostWords + 1, 10 * mostWords} {
			text := strings.Repeat("0123456789", length/10+1)[:length]
			var words LastWords
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				if k, err := words.Write([]byte(rest[:n])); k != n || err != nil {
					t.Fatalf("Write = %d, %v", k, err)
				}
				rest = rest[n:]
			}
			want := text
			if length > 2*mostWords {
				want = text[:mostWords] + "\n…\n" + text[length-mostWords:]
			}
			if got := words.String(); got != want {
				t.Errorf("%d bytes, %d at a time: %d bytes kept, want %d", length, size, len(got), len(want))
			}
		}
	}
	var words LastWords
	fmt.Fprint(&words, "\xff")
	if words.String() != "?" {
		t.Errorf("%q is no text", words.String())
	}
}

func TestOutOfMemory(t *testing.T) {
	for words, want := range map[string]bool{
		"fatal error: runtime: out of memory":                    true,
		"terminate called after throwing 'std::bad_alloc'":       true,
		"runtime: pthread_create failed: Resource temporarily …": true,
		"panic: index out of range":                              false,
		"":                                                       false,
	} {
		if OutOfMemory(words) != want {
			t.Errorf("%q: %v", words, !want)
		}
	}
}
