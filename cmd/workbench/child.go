package main

import (
	"workbench/bench/run"
	"workbench/bench/worker"
)

// childOrContinue turns this process into the child of an isolated solve or of
// a sweep's worker if it was started as one, and returns otherwise.
func childOrContinue() {
	run.ServeChild()
	worker.ServeChild(worker.Solve)
}
