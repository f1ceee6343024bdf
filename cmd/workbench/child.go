package main

import (
	"workbench/bench"
	"workbench/bench/worker"
)

// childOrContinue turns this process into the child of an isolated solve or of
// a sweep's worker if it was started as one, and returns otherwise.
func childOrContinue() {
	bench.ServeChild()
	worker.ServeChild(worker.Solve)
}
