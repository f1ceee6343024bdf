package pipeline

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"sort"

	"workbench/heuristics/pipeline/race"
)

// processors are a set of them.
type processors uint64

// everybody is all of them, however many.
const everybody processors = math.MaxUint64

func (of processors) has(r int) bool {
	return r != none && (of == everybody || of>>r&1 == 1)
}

// A direction is that of time in a race. A pattern is one in reverse, too: backwards come first and take memory, and forwards give
// it back. One race may be lost in few ways where the other has many, mostly that in reverse.
type direction int

const (
	onwards direction = iota
	reversed
)

// A team is who is in a race, which way time runs in it, and whether the layer behind may be anywhere, also in the last run: else it is on
// another processor.
type team struct {
	processors
	time direction
	open bool
}

// A reason is why allocations are excluded: what a few processors have of the layers up to one, behind which the next is elsewhere,
// when a race of them alone is lost, in which all else is a delay. Wherever the other layers are, there is
// no pattern. It is a number for the layers of each of these processors, in ascending order, since they are alike.
type reason [mostReason]int32

const (
	// mostReason is how many processors a reason has at most.
	mostReason = 4
	// mostTried is how many processors a race is tried of at most, but for that of all: of eight there are 93 such sets.
	mostTried = 3
	// Of up to together processors, and of more than mostApart, races are of all of them only: of a few they are no quicker
	// there, or too many to try.
	together, mostApart = 4, 16
	// aloneMost is how many ways are tried of a processor alone whenever a run of it ends.
	aloneMost = 1 << 8
	// Beside how many ways have been tried of a reason in vain: its race is lost, or goes on.
	isLost, isNot = -1, math.MaxInt32
)

// told is what a race has told, how many ways it has tried, and how it stands.
type told struct {
	end  race.End
	made int
	race.Standing
}

// A trial is what is remembered of a race, and trials are those onwards and in reverse.
type trial struct {
	made int32
	race.Standing
}

type trials [2]trial

// longer numbers the layers that a processor has with layer l, beside those of that number.
func (a *allocations) longer(set int32, l int) int32 {
	key := [2]int32{set, int32(l)}
	x, known := a.sets[key]
	if !known {
		x = int32(len(a.sets) + 1)
		a.sets[key] = x
	}
	return x
}

// reasonOf is what those processors have of layers 1..n; ok is false where they are too many, or races are of all only. O(n) if they
// have others.
func (a *allocations) reasonOf(of processors, n int) (x reason, ok bool) {
	if !a.apart {
		return x, false
	}
	count := 0
	for r, list := range a.on {
		if !of.has(r) || len(list) == 0 || list[0] > n {
			continue
		}
		set := a.set[r]
		if list[len(list)-1] > n {
			set = 0
			for _, l := range list {
				if l <= n {
					set = a.longer(set, l)
				}
			}
		}
		if count == mostReason {
			return x, false
		}
		k := count
		for ; k > 0 && x[k-1] > set; k-- {
			x[k] = x[k-1]
		}
		x[k], count = set, count+1
	}
	return x, true
}

// raced returns how a race of a team ends, of their layers up to n, which is one of them. What has been found out is
// remembered: by reason, or of all by who has layers 1..n.
func (a *allocations) raced(of team, n, most int) told {
	x, ok := a.reasonOf(of.processors, n)
	tried, whole := a.tried[x], ""
	if !ok {
		whole = a.beginning(n)
		tried = a.triedWhole[whole]
	}
	switch known := tried[of.time]; {
	case known.made == isLost:
		return told{end: race.Lost}
	case known.made == isNot:
		return told{end: race.GoesOn}
	case int(known.made) >= most:
		return told{end: race.Unfinished, Standing: known.Standing}
	}
	y := a.raceBy(n, of, raceWidths[0], most)
	switch y.end {
	case race.Lost:
		tried[onwards].made, tried[reversed].made = isLost, isLost
	case race.GoesOn:
		tried[of.time].made = isNot
	default:
		tried[of.time] = trial{int32(y.made), y.Standing}
	}
	if ok {
		a.tried[x] = tried
	} else {
		a.triedWhole[whole] = tried
	}
	return y
}

// beginning says who has layers 1..n.
func (a *allocations) beginning(n int) string {
	key := a.key[:0]
	for _, r := range a.owner[1 : n+1] {
		key = binary.LittleEndian.AppendUint16(key, uint16(r))
	}
	a.key = key
	return string(key)
}

// mayEnd reports whether the run of layer l may end there: whether no reason is known why its processor, or it and others, cannot
// have just what they have, and no short race of it alone is lost.
func (a *allocations) mayEnd(l, used int) bool {
	q := a.owner[l]
	if a.someLost(1<<q, l, 0, used, mostReason-1) {
		return false
	}
	return a.raced(team{processors: 1 << q, time: onwards}, l, aloneMost).end != race.Lost
}

// someLost reports whether a reason is known that has those processors and up to so many from a number on. O(used³).
func (a *allocations) someLost(of processors, l, from, used, more int) bool {
	if x, _ := a.reasonOf(of, l); a.tried[x][onwards].made == isLost {
		return true
	}
	for r := from; r < used && more > 0; r++ {
		if !of.has(r) && a.someLost(of|1<<r, l, r+1, used, more-1) {
			return true
		}
	}
	return false
}

// A contender is a team whose race is not over.
type contender struct {
	team
	race.Standing
}

// contenders returns the teams that races are tried of: of all, and of few.
func (a *allocations) contenders(used int) (all, few []contender) {
	for _, time := range []direction{reversed, onwards} {
		all = append(all, contender{team: team{processors: everybody, time: time}})
	}
	for n := 1; n <= min(mostTried, used-1) && a.apart; n++ {
		for of := processors(1); of < 1<<used; of++ {
			if bits.OnesCount64(uint64(of)) == n {
				few = append(few, contender{team: team{processors: of, time: reversed}}, contender{team: team{processors: of, time: onwards}})
			}
		}
	}
	return all, few
}

// A winner is a team whose race was lost in so many ways.
type winner struct {
	team
	made int
}

const (
	// mostWon is how many teams are tried again that have excluded other allocations, with wonAgain times as many ways, at least wonLeast: those
	// that differ by a layer are excluded by the same. Those with wonSoon ways or less come first, and others up to wonMost when races
	// have lateWays.
	mostWon, wonAgain, wonLeast = 6, 4, 1 << 12
	wonSoon, wonMost, lateWays  = 1 << 14, 1 << 20, 1 << 17
	// Races are tried with twice as many ways each time: of fewer and fewer teams of few, and of all with some of these
	// numbers, the last of which is raceMost for them.
	allWays = 1<<12 | 1<<15 | 1<<18 | lastAll
	lastAll = 1 << 19
)

// mayGoOn reports whether no race excludes the whole allocation: of all processors, or of a few, which has fewer ways where
// others have memory to spare, in either direction. If one does, it jumps back. Of few some go on (see [race.GoOn]).
func (a *allocations) mayGoOn(used int) bool {
	if a.winAgain(0, wonSoon) {
		return false
	}
	all, few := a.contenders(used)
	var goesOn []team // of all
	for most := race.FirstWays; most <= raceMost; most *= 2 {
		if most == lateWays && a.winAgain(wonSoon, wonMost) {
			return false
		}
		lists := []*[]contender{&few}
		if most&allWays != 0 {
			lists = []*[]contender{&all, &few}
		}
		for _, list := range lists {
			left := (*list)[:0]
			for _, x := range *list {
				if a.budget < 0 {
					return true
				}
				ways := most
				if x.processors == everybody && most == lastAll {
					ways = raceMost
				}
				switch y := a.excludes(x.team, ways); {
				case y.end == race.Lost:
					return false
				case y.end == race.Unfinished:
					left = append(left, contender{x.team, y.Standing})
				case x.processors == everybody:
					goesOn, few = append(goesOn, x.team), nil // what all can do a few can
				}
			}
			*list = left
		}
		few = race.GoOn(few, most, func(x contender) race.Standing { return x.Standing })
	}
	for _, of := range goesOn {
		if !a.mayGoOnApart(of) {
			return false
		}
	}
	return true
}

// winAgain reports whether a team excludes the allocation that has excluded another in more than so many ways, up to so many.
func (a *allocations) winAgain(from, to int) bool {
	for _, x := range a.won {
		if from < x.made && x.made <= to && a.excludes(x.team, max(wonLeast, wonAgain*x.made)).end == race.Lost {
			return true
		}
	}
	return false
}

// excludes runs the race of a team for the whole allocation. If it is lost, it jumps back, and the team is remembered.
func (a *allocations) excludes(of team, most int) told {
	y := a.raced(of, a.lastOf(of.processors, a.in.N), most)
	if y.end != race.Lost {
		return y
	}
	if y.made > 0 {
		a.won = slices.DeleteFunc(a.won, func(x winner) bool { return x.team == of })
		a.won = slices.Insert(a.won, 0, winner{of, y.made})
		a.won = a.won[:min(len(a.won), mostWon)]
	}
	a.jump(of, y.made)
	return y
}

// mayGoOnApart is mayGoOn of all processors with shorter steps.
func (a *allocations) mayGoOnApart(of team) bool {
	for _, wide := range raceWidths[1:] {
		if y := a.raceBy(a.in.N, of, wide, raceMost); y.end != race.GoesOn {
			return y.end != race.Lost
		}
	}
	return true
}

// jump looks for the shortest beginning that is excluded, too, by that team, and then by all. Whatever continues it on
// another processor need not be looked at.
func (a *allocations) jump(of team, made int) {
	n := a.lastOf(of.processors, a.in.N)
	if n < a.in.N {
		a.back = n + 1
	}
	n = a.shorten(of, n, made)
	if of.processors != everybody {
		a.shorten(team{processors: everybody, time: of.time}, n, made)
	}
	if !a.apart {
		a.open(of, made)
	}
	if a.all != nil && a.back > 0 {
		a.all.tell(a.owner[:a.back])
	}
}

// shortenAgain is how many times as many ways a shorter beginning may have: it excludes many allocations.
const shortenAgain = 16

// shorten goes back run by run from layer n, as long as races of that team are lost, and returns the last layer of the
// shortest beginning.
func (a *allocations) shorten(of team, n, made int) int {
	for {
		before := a.lastOf(of.processors, a.runBefore(n))
		if before == 0 {
			return n
		}
		if a.raced(of, before, shortenAgain*made+1<<13).end != race.Lost {
			return n
		}
		n = before
		a.back = n + 1
	}
}

// open goes back in the last run of the beginning that is excluded, by bisection, as long as the race of that team is lost wherever the
// layer behind is: what goes on with that run is excluded, too. Where reasons are of a few processors it costs more than it
// saves: that DenseNet-121 has no pattern of 117 ms on eight of 6 GiB takes 18 s with it, and 10 without.
func (a *allocations) open(of team, made int) {
	n := a.lastOf(of.processors, max(0, a.back-1))
	first := a.runBefore(n) + 1
	of.open = true
	lost := func(m int) bool { return a.raceBy(m, of, raceWidths[0], 2*made+1<<13).end == race.Lost }
	if n > 0 && lost(n) {
		a.back = first + sort.Search(n-first, func(k int) bool { return lost(first + k) }) + 1
	}
}

// lastOf is the last of layers 1..n on those processors, 0 if there is none.
func (a *allocations) lastOf(of processors, n int) int {
	for n > 0 && !of.has(a.owner[n]) {
		n--
	}
	return n
}

// runBefore is the end of the run before that of layer n.
func (a *allocations) runBefore(n int) int {
	r := a.owner[n]
	for n > 0 && a.owner[n] == r {
		n--
	}
	return n
}
