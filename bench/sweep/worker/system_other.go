//go:build !unix

package worker

func killedFromOutside(error) bool { return false }
