package main

import "workbench/bench"

// childOrContinue turns this process into the child of an isolated solve if it
// was started as one, and returns otherwise.
func childOrContinue() { bench.ServeChild() }
