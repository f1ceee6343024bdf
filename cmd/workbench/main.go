// Command workbench solves, compares, verifies and shows plans for training
// networks that do not fit in GPU memory, and says how far from optimal each
// plan is.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	childOrContinue()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := runApp(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
