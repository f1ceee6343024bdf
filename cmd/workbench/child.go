package main

import (
	"workbench/bench/solve/backends"
	"workbench/bench/sweep/worker"
)

// childOrContinue is all of a process that was started as the child of a solve or of a worker.
func childOrContinue() {
	backends.ServeChild()
	worker.ServeChild(worker.Solve)
}
