package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
)

// Environment is where rows were made.
type Environment struct {
	Format   string            `json:"format"`
	Digest   string            `json:"digest"`   // of the other fields
	Version  string            `json:"version"`  // of workbench: git revision, "+dirty" if changed
	Go       string            `json:"go"`       // version
	System   string            `json:"system"`   // GOOS/GOARCH
	CPU      string            `json:"cpu"`      // model name
	Cores    int               `json:"cores"`    // that may be used
	Memory   int64             `json:"memory"`   // bytes that may be used
	Backends map[string]string `json:"backends"` // name to version
	Isolated bool              `json:"isolated"` // each task in a child process
	Jobs     int               `json:"jobs"`     // tasks at a time
	// Units are those of its rows that say no others; nil in older files.
	Units *Units `json:"units,omitempty"`
}

// Here returns the environment of this process, which has backends of these versions. O(1),
// but for reading files of /proc.
func Here(backends map[string]string, isolated bool, jobs int) Environment {
	e := Environment{
		Format: EnvironmentFormat, Version: Version(), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH,
		CPU: proc("/proc/cpuinfo", "model name"), Cores: runtime.GOMAXPROCS(0), Memory: usableMemory(),
		Backends: backends, Isolated: isolated, Jobs: jobs, Units: &Units{"s", "B", "s"},
	}
	e.Digest = digest(e)
	return e
}

// Version returns the git revision this program was built from, its first 12
// digits, with "+dirty" if the tree had changes. A build without a note of it
// is named after the program itself: "build-" and 12 digits of its SHA-256.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return buildName()
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if revision == "" {
		return buildName()
	}
	return revision + dirty
}

// buildName reads the program once: that takes a twentieth of a second.
var buildName = sync.OnceValue(func() string {
	self, err := os.Executable()
	if err != nil {
		return "unknown"
	}
	f, err := os.Open(self)
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "unknown"
	}
	return "build-" + hex.EncodeToString(h.Sum(nil)[:6])
})

// proc returns the first value of a key in a file of "key : value" lines,
// empty where there is no such file.
func proc(path, key string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// usableMemory returns the bytes that this process may use: those of the
// machine, or of its control group if that has less; 0: unknown.
func usableMemory() (bytes int64) {
	number := func(s string) int64 {
		s, _, _ = strings.Cut(strings.TrimSpace(s), " ")
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return 0 // "max"
		}
		return n
	}
	bytes = 1024 * number(proc("/proc/meminfo", "MemTotal"))
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if data, err := os.ReadFile(path); err == nil {
			if n := number(string(data)); n > 0 && (bytes == 0 || n < bytes) {
				bytes = n
			}
		}
	}
	return bytes
}
