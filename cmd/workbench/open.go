package main

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// openers are the programs that open a file as its user would, by operating system.
var openers = map[string]string{"darwin": "open", "windows": "explorer"}

// openPage opens a page in the program that BROWSER names or the desktop has for pages, and does not wait for it.
func openPage(file string) error {
	program := cmp.Or(os.Getenv("BROWSER"), openers[runtime.GOOS], "xdg-open")
	c := exec.Command(program, file)
	if err := c.Start(); err != nil {
		return usagef("--open: %s cannot be run: open %s by hand, or set BROWSER", program, file)
	}
	return c.Process.Release()
}

// pageOf returns the name of the page of a plan: beside it, or a temporary file for a plan from standard input.
func pageOf(planFile string) string {
	if planFile == "-" {
		return filepath.Join(os.TempDir(), "workbench-plan.html")
	}
	return strings.TrimSuffix(planFile, ".json") + ".html"
}
