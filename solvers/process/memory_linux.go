package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// watchEvery is how often the watchdog looks, and ownMemory what a process of
// this program has without doing anything.
const (
	watchEvery = 50 * time.Millisecond
	ownMemory  = 64 << 20
)

// WatchMemory calls seen with the resident memory of process pid, and exceeded
// if it grows beyond limit, until ended is closed. It is for what RLIMIT_DATA
// does not count.
func WatchMemory(pid int, limit int64, ended <-chan struct{}, seen func(int64), exceeded func()) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		pages, ok := statm(fmt.Sprintf("/proc/%d/statm", pid), 1)
		if !ok {
			continue
		}
		rss := pages * int64(os.Getpagesize())
		seen(rss)
		if rss > limit+ownMemory {
			exceeded()
			return
		}
	}
}

// dataInUse is what RLIMIT_DATA counts of this process, but for its stack.
func dataInUse() int64 {
	pages, _ := statm("/proc/self/statm", 5)
	return pages * int64(os.Getpagesize())
}

// statm returns a field of a statm file, see proc(5): 1 is the resident set, 5
// is data and stack; all in pages.
func statm(path string, field int) (int64, bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(b)
	if len(fields) <= field {
		return 0, false
	}
	n, err := strconv.ParseInt(string(fields[field]), 10, 64)
	return n, err == nil
}
