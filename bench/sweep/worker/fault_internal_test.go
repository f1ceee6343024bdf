package worker

import "testing"

// A fault inside Go's runtime under a limit of memory is told from one in our code.
func TestRuntimeFault(t *testing.T) {
	for words, want := range map[string]bool{
		"SIGSEGV: segmentation violation\nPC=0x4a38fd m=5 sigcode=1 addr=0x0\n\ngoroutine 0 gp=0x36f5200841e0 m=5 mp=0x36f520080008 " +
			"[idle]:\nruntime.(*spanQueue).tryDrain(0x7fc100000400?": true,
		"panic: runtime error: invalid memory address or nil pointer dereference\n[signal SIGSEGV]\n\ngoroutine 1 [running]:\nmain.f()": false,
		"SIGSEGV: segmentation violation\nPC=0x7f m=0 sigcode=1 addr=0x0\nsignal arrived during cgo execution\n\ngoroutine 1 gp=0x1 m=0 " +
			"mp=0x2 [syscall]:\nmain.f()": false,
		"SIGSEGV: segmentation violation\nPC=0x4a38fd m=5 sigcode=0\n\ngoroutine 1 gp=0x3 m=0 mp=0x1 [select (no cases)]:\nruntime.gopark(0x0?": false,
		"SIGSEGV: segmentation violation\nPC=0x7f m=0 sigcode=1 addr=0x0\n\ngoroutine 1 gp=0x1 m=0 mp=0x2 [syscall]:\nruntime.cgocall(0x0?":     false,
	} {
		if faultOfRuntime(words) != want {
			t.Errorf("%q: want %v", words, want)
		}
	}
}
