package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// watchEvery is the polling interval of the watchdog.
const watchEvery = 50 * time.Millisecond

// watchMemory calls seen with the resident memory of process pid at intervals, until ended is closed.
func watchMemory(pid int, ended <-chan struct{}, seen func(int64)) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		if pages, ok := statm(fmt.Sprintf("/proc/%d/statm", pid), 1); ok {
			seen(pages * int64(os.Getpagesize()))
		}
	}
}

// dataInUse returns the memory that RLIMIT_DATA counts for this process, without its stack.
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
