package pipeline

import (
	"slices"
	"sync"
	"sync/atomic"
)

// manyBeginnings is how many beginnings of allocations there are for each that works on them, if there are so many: some take
// long, and others wait for nobody then.
const manyBeginnings = 16

// abreast are what those who enumerate the same allocations know of each other.
type abreast struct {
	budget atomic.Int64 // that all of them have left
	next   atomic.Int64 // how many beginnings are somebody's
	told   atomic.Int64 // how many are lost
	mutex  sync.Mutex
	lost   [][]int // nothing has to begin with these, with another behind them than their last
}

// runAbreast is run with so many who enumerate, of patterns of every k. What it proves is what run proves; where the work does
// not suffice, which allocations have been seen may be another each time. Unless late is nil the last begins when it is closed.
func (a *allocations) runAbreast(workers int, late <-chan struct{}) {
	if workers <= 1 {
		a.run()
		return
	}
	list := a.beginnings(manyBeginnings * workers)
	if a.undecided || len(list) == 0 {
		return
	}
	all, others := &abreast{}, make([]*allocations, min(workers, len(list)))
	all.budget.Store(a.budget)
	var group sync.WaitGroup
	finish := make(chan struct{}) // one has found no more to do
	finished := sync.OnceFunc(func() { close(finish) })
	for k := range others {
		others[k] = newAllocations(a.in, a.period, a.heavy, a.k, a.ended)
		group.Go(func() {
			if k > 0 && k == len(others)-1 && late != nil {
				select {
				case <-late:
				case <-finish:
					return
				}
			}
			others[k].runBeside(all, list)
			finished()
		})
	}
	group.Wait()
	a.budget = all.budget.Load()
	for _, b := range others {
		a.nodes += b.nodes
		if b.undecided { // more work does not help where one has not been short of it
			a.short = b.short && (a.short || !a.undecided)
			a.undecided = true
		}
	}
	a.settleShort()
}

// runBeside enumerates what begins as none of the list that another has taken.
func (a *allocations) runBeside(all *abreast, list [][]int) {
	a.all, a.budget = all, all.budget.Load()
	a.drawn, a.owner[0] = a.budget, none
	for i := all.next.Add(1); i <= int64(len(list)) && !a.undecided && !a.over(); i = all.next.Add(1) {
		a.runFrom(list[i-1])
	}
}

// beginnings returns what allocations begin with, the owners of some first layers: of so many layers that there are enough, if
// there can be. None are left where all allocations are excluded.
func (a *allocations) beginnings(enough int) [][]int {
	if !a.mayStart() {
		return nil
	}
	for a.upTo = 1; ; a.upTo++ {
		a.begun = a.begun[:0]
		a.owner[0] = none
		a.place(1, 0)
		a.settleShort()
		if n := len(a.begun); n == 0 || n >= enough || a.undecided || a.upTo >= a.in.N-1 {
			a.upTo = 0
			return a.begun
		}
	}
}

// runFrom enumerates what begins so, unless somebody has found that it is lost.
func (a *allocations) runFrom(owner []int) {
	if a.all.isLost(owner) {
		return
	}
	n, used, last := len(owner)-1, 0, 0
	before := make([]placed, n+1)
	for l := 1; l <= n; l++ {
		if owner[l] == none {
			a.skip(l)
			continue
		}
		before[l], _ = a.put(l, owner[l])
		used, last = max(used, owner[l]+1), l
	}
	if last == 0 || a.mayFit(last, used) { // it may; what is known behind light layers is of it then
		a.place(n+1, used)
	}
	for l := n; l >= 1; l-- {
		if owner[l] != none {
			a.takeBack(l, owner[l], before[l])
		}
	}
	if a.back > 0 {
		a.all.tell(owner[:a.back])
		a.back = 0
	}
	a.draw()
}

// isLost reports whether what begins so is excluded.
func (all *abreast) isLost(owner []int) bool {
	all.mutex.Lock()
	defer all.mutex.Unlock()
	return slices.ContainsFunc(all.lost, func(x []int) bool { return continues(owner, x) })
}

// continues reports whether owners begin with x, and go on elsewhere.
func continues(owner, x []int) bool {
	n := len(x)
	return n < len(owner) && slices.Equal(x, owner[:n]) && owner[n] != owner[n-1]
}

// tell says that what begins so is lost.
func (all *abreast) tell(owner []int) {
	all.mutex.Lock()
	defer all.mutex.Unlock()
	all.lost = append(all.lost, slices.Clone(owner))
	all.told.Store(int64(len(all.lost)))
}

// hear jumps back where what layers before l begin with has been found lost, by others most likely. O(n) for each that is new.
func (a *allocations) hear(l int) {
	if a.all == nil || int64(a.heard) == a.all.told.Load() {
		return
	}
	a.all.mutex.Lock()
	defer a.all.mutex.Unlock()
	for _, x := range a.all.lost[a.heard:] {
		if continues(a.owner[:l], x) && (a.back == 0 || len(x) < a.back) {
			a.back = len(x)
		}
	}
	a.heard = len(a.all.lost)
}

// draw makes the work that is left that of all, less what has been done. Once it is used up it stays so: nobody gives back what
// was too much, for others have turned back by then.
func (a *allocations) draw() {
	switch {
	case a.all == nil:
		return
	case a.budget < 0:
		a.all.budget.Store(-1)
	default:
		a.budget = a.all.budget.Add(a.budget - a.drawn)
	}
	a.drawn = a.budget
}
