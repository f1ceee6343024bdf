package queuetest

import (
	"testing"
	"testing/synctest"
	"time"
)

// Leases of an hour, and no time passes.
func TestMemory(t *testing.T) {
	for _, c := range Cases(time.Hour) {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.Run(t, NewMemory(c.Lease)) })
		})
	}
}
