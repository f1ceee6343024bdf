package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func says(text string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
}

func content(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestRegularFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "plan.json")
	for _, text := range []string{"first", "second"} {
		if err := Check(name); err != nil {
			t.Fatal(err)
		}
		if err := Write(name, nil, says(text)); err != nil {
			t.Fatal(err)
		}
		if got := content(t, name); got != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
	if err := os.Chmod(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(name, nil, func(io.Writer) error { return errors.New("half") }); err == nil || content(t, name) != "second" {
		t.Errorf("a write that failed left %q and says %v", content(t, name), err)
	}
	if err := Write(name, nil, says("third")); err != nil {
		t.Fatal(err)
	}
	if i, _ := os.Stat(name); i.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, was 0600", i.Mode())
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%d files, want the one asked for", len(left))
	}
}

func TestReadOnlyFilesStay(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(name, []byte("mine"), 0o444); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{Check(name), Write(name, nil, says("yours"))} {
		if err == nil || !strings.HasPrefix(err.Error(), name+" cannot be written: it is read-only") {
			t.Error(err)
		}
	}
	if content(t, name) != "mine" {
		t.Error("the file was replaced")
	}
}

func TestLinksAreFollowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link, file := filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two"} { // the first makes the file
		if err := Write(link, nil, says(text)); err != nil {
			t.Fatal(err)
		}
		if i, _ := os.Lstat(link); i.Mode()&os.ModeSymlink == 0 || content(t, file) != text {
			t.Errorf("the link was replaced: %v; the file has %q", i.Mode(), content(t, file))
		}
	}
}

func TestDevicesAndPipesAreWrittenThrough(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	null := filepath.Join(dir, "null")
	if err := os.Symlink(os.DevNull, null); err != nil {
		t.Fatal(err)
	}
	if err := Check(null); err != nil {
		t.Fatal(err)
	}
	if err := Write(null, nil, says("gone")); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		data, err := os.ReadFile(pipe)
		if err != nil {
			data = []byte(err.Error())
		}
		read <- string(data)
	}()
	if err := Write(pipe, nil, says("through")); err != nil {
		t.Fatal(err)
	}
	if got := <-read; got != "through" {
		t.Errorf("%q came out of the pipe", got)
	}
	if i, _ := os.Lstat(pipe); i.Mode()&os.ModeNamedPipe == 0 {
		t.Error("the pipe was replaced")
	}
}

func TestOthersAreErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dir, filepath.Join(dir, "no", "such"), loop} {
		var unwritable *UnwritableError
		if err := Check(name); !errors.As(err, &unwritable) {
			t.Errorf("Check(%s): %v", name, err)
		}
		if err := Write(name, nil, says("x")); !errors.As(err, &unwritable) {
			t.Errorf("Write(%s): %v", name, err)
		}
	}
}

func TestStandardOutput(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := errors.Join(Check("-"), Write("-", &b, says("here"))); err != nil || b.String() != "here" {
		t.Errorf("%q, %v", b.String(), err)
	}
}

// What comes bit by bit is written as a whole when it is done; "" is nowhere.
func TestLater(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	w, done, err := Later(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"a", "b"} {
		if _, err := io.WriteString(w, word); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(name); err == nil {
		t.Error("written before it is done")
	}
	if err := done(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != "ab" {
		t.Errorf("%q, %v", text, err)
	}
	if w, done, err := Later("", nil); w != nil || done() != nil || err != nil {
		t.Error("nowhere is somewhere")
	}
	if _, _, err := Later(filepath.Join(name, "below"), nil); err == nil {
		t.Error("a file below a file")
	}
}

// What would be replaced is the same file behind links, and one name twice where there is
// no file yet; what is written through, and standard output, are not replaced.
func TestSame(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", at("link")); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name, other string
		want        bool
	}{
		{at("file"), at("file"), true},
		{at("link"), at("file"), true},
		{at("file"), at("link"), true},
		{dir + "/./file", at("file"), true},
		{at("none"), at("none"), true},
		{at("none"), at("other"), false},
		{at("file"), at("none"), false},
		{at("none"), at("file"), false},
		{os.DevNull, os.DevNull, false},
		{Standard, Standard, false},
	} {
		if got := Same(x.name, at("another"), x.other); got != x.want {
			t.Errorf("%s and %s: %v, want %v", x.name, x.other, got, x.want)
		}
	}
}
