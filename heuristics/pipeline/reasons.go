package pipeline

import (
	"math"
	"math/bits"
	"slices"

	view "workbench/model/pipeline"

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
// it back. One race may be lost in few ways where the other has many, mostly that in reverse; of some processors only those onwards
// are tried, which are lost sooner.
type direction int

const (
	onwards direction = iota
	reversed
)

// A team is who is in a race, and which way time runs in it.
type team struct {
	processors
	time direction
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
// remembered.
func (a *allocations) raced(of team, n, most int) (answer race.End, made int) {
	x, ok := a.reasonOf(of.processors, n)
	tried := a.tried[x]
	switch known := tried[of.time]; {
	case !ok:
		return a.raceBy(n, of, raceWidths[0], most)
	case known == isLost:
		return race.Lost, 0
	case known == isNot:
		return race.GoesOn, 0
	case int(known) >= most:
		return race.Unfinished, 0
	}
	answer, made = a.raceBy(n, of, raceWidths[0], most)
	switch answer {
	case race.Lost:
		tried = [...]int32{isLost, isLost}
	case race.GoesOn:
		tried[of.time] = isNot
	default:
		tried[of.time] = int32(made)
	}
	a.tried[x] = tried
	return answer, made
}

// mayEnd reports whether the run of layer l may end there: whether no reason is known why its processor, or it and others, cannot
// have just what they have, and no short race of it alone is lost.
func (a *allocations) mayEnd(l, used int) bool {
	q := a.owner[l]
	if a.someLost(1<<q, l, 0, used, mostReason-1) {
		return false
	}
	answer, _ := a.raced(team{1 << q, onwards}, l, aloneMost)
	return answer != race.Lost
}

// someLost reports whether a reason is known that has those processors and up to so many from a number on. O(used³).
func (a *allocations) someLost(of processors, l, from, used, more int) bool {
	if x, _ := a.reasonOf(of, l); a.tried[x][0] == isLost {
		return true
	}
	for r := from; r < used && more > 0; r++ {
		if !of.has(r) && a.someLost(of|1<<r, l, r+1, used, more-1) {
			return true
		}
	}
	return false
}

// teamsOf returns the teams that races are tried of: first of all, then of few, and later those before that were lost last.
func (a *allocations) teamsOf(used int) []team {
	if a.teamsUsed == used {
		return a.teams
	}
	a.teamsUsed, a.teams = used, []team{{everybody, reversed}, {everybody, onwards}}
	for n := 1; n <= min(mostTried, used-1) && a.apart; n++ {
		for of := processors(1); of < 1<<used; of++ {
			if bits.OnesCount64(uint64(of)) == n {
				a.teams = append(a.teams, team{of, onwards})
			}
		}
	}
	return a.teams
}

// mayGoOn reports whether no race excludes the whole allocation: of all processors, or of a few, which has fewer ways where
// others have memory to spare, in either direction. If one does, it jumps back.
func (a *allocations) mayGoOn(used int) bool {
	var goesOn []team // of all
	for _, most := range raceMosts {
		for k, of := range a.teamsOf(used) {
			if a.budget < 0 || most == raceMost && of.processors != everybody || slices.Contains(goesOn, of) {
				continue
			}
			switch answer, made := a.raced(of, a.lastOf(of.processors, a.in.N), most); {
			case answer == race.Lost:
				copy(a.teams[1:k+1], a.teams[:k])
				a.teams[0] = of
				a.jump(of, made)
				return false
			case answer == race.GoesOn && of.processors == everybody:
				goesOn = append(goesOn, of)
			}
		}
	}
	for _, of := range goesOn {
		if !a.mayGoOnApart(of) {
			return false
		}
	}
	return true
}

// mayGoOnApart is mayGoOn of all processors with shorter steps.
func (a *allocations) mayGoOnApart(of team) bool {
	for _, wide := range raceWidths[1:] {
		if answer, _ := a.raceBy(a.in.N, of, wide, raceMost); answer != race.GoesOn {
			return answer != race.Lost
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
		a.shorten(team{everybody, of.time}, n, made)
	}
}

// shorten goes back run by run from layer n, as long as races of that team are lost, and returns the last layer of the
// shortest beginning.
func (a *allocations) shorten(of team, n, made int) int {
	for {
		before := a.lastOf(of.processors, a.runBefore(n))
		if before == 0 {
			return n
		}
		if answer, _ := a.raced(of, before, 8*made+1<<13); answer != race.Lost {
			return n
		}
		n = before
		a.back = n + 1
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

// between is the least that a forward and a backward wait for links between layers i and j, in runs that take no more than the
// period. O(longest run) for each i and j once.
func (a *allocations) between(i, j int) [2]float64 {
	in, row := a.in, a.cuts[i]
	for k := i + len(row); k <= j; k++ { // the last run is first..k
		f, b, load := math.Inf(1), math.Inf(1), 0.0
		for first := k; first >= i; first-- {
			if !a.light[first] {
				load += in.UF[first] + in.UB[first]
			}
			if first < k && load > a.period*(1+2*view.Rounding) {
				break
			}
			if first == i {
				f, b = 0, 0
				break
			}
			before := row[first-1-i]
			f, b = min(f, before[0]+a.cutF[first-1]), min(b, before[1]+a.cutB[first-1])
		}
		row = append(row, [2]float64{f, b})
	}
	a.cuts[i] = row
	return row[j-i]
}
