package main

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
)

// onWrite calls f once, at the first write that contains text, and not unless where that is not "".
type onWrite struct {
	text, unless string
	once         sync.Once
	f            func()
	buf          bytes.Buffer
}

func (w *onWrite) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.text) && (w.unless == "" || !strings.Contains(string(p), w.unless)) {
		w.once.Do(w.f)
	}
	return w.buf.Write(p)
}

// An interruption, which main turns into the end of the context, keeps what
// was found: the plan and the bound are printed, and the exit status says that it was
// interrupted.
func TestInterruptKeepsTheIncumbent(t *testing.T) {
	// At this bandwidth no plan meets its bound, so nothing ends by itself
	// within the limit asked for.
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	errw := &onWrite{text: "search", f: cancel}
	code := runApp(ctx, strings.Fields("workbench solve --problem weight-offload zoo:table1-gpt2?depth=38&batch=16 --bandwidth 0.5GB/s "+
		"--time-limit 1h"), strings.NewReader(""), &out, errw)
	if code != exitInterrupted {
		t.Fatalf("exit status %d, want 130; standard error:\n%s", code, &errw.buf)
	}
	if ctx.Err() == nil {
		t.Fatalf("the solve was never interrupted; standard error:\n%s", &errw.buf)
	}
	for _, want := range []string{"verified by replay", "bound", "status      feasible"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in the output:\n%s", want, &out)
		}
	}
}

// An interrupted proof reports the bound it has: here the first that is above the closed form, 46.656 s.
func TestInterruptKeepsTheBound(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	errw := &onWrite{text: "search", unless: "46.656 s", f: cancel}
	code := runApp(ctx, strings.Fields("workbench solve --problem weight-offload zoo:table1-gpt2?depth=38&batch=16 --bandwidth 0.5GB/s "+
		"--time-limit 1h"), strings.NewReader(""), &out, errw)
	if code != exitInterrupted {
		t.Fatalf("exit status %d, want 130; standard error:\n%s", code, &errw.buf)
	}
	if !strings.Contains(out.String(), "certified: weights-nested") {
		t.Errorf("no certified bound in the output:\n%s", &out)
	}
}

// An interrupted comparison or curve says which methods are missing.
func TestInterruptSaysWhatIsMissing(t *testing.T) {
	for _, command := range []string{
		"compare --problem remat --methods revolve,optimum,persistent",
		"curve --problem remat --points 2 --methods revolve,optimum,persistent",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var out bytes.Buffer
		runApp(ctx, append([]string{"workbench"}, append(strings.Fields(command), "zoo:resnet18", "--quiet")...), strings.NewReader(""), &out,
			&bytes.Buffer{})
		if want := "interrupted: revolve has what it had by then; not run: optimum, persistent\n"; !strings.HasSuffix(out.String(), want) {
			t.Errorf("%s: no %q at the end of\n%s", command, want, &out)
		}
	}
}

// An interruption before anything was done is said in words of ours, by every command.
func TestInterruptAtOnce(t *testing.T) {
	dir := likeClone(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	lines := []string{"bench run quick --into " + dir + "/swept", "import --from minimalloc " + dir + "/none.csv"}
	for _, x := range printed {
		lines = append(lines, strings.ReplaceAll(x.line, "@", dir+"/"))
	}
	stopped := 0
	for _, line := range lines {
		var out, errs bytes.Buffer
		code := runApp(ctx, append([]string{"workbench"}, strings.Fields(line)...), strings.NewReader(""), &out, &errs)
		if strings.Contains(errs.String(), "context ") || strings.Contains(errs.String(), "stopped") && code != exitInterrupted {
			t.Errorf("%s: status %d\n%s", line, code, &errs)
		}
		if code == exitInterrupted {
			stopped++
		}
	}
	if stopped < 10 {
		t.Errorf("%d commands were interrupted", stopped)
	}
}
