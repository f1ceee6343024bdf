package plan

import "testing"

func TestMeets(t *testing.T) {
	stages := func(list ...[3]int) *Plan {
		p := &Plan{K: 1}
		for _, x := range list {
			p.Allocation = append(p.Allocation, Stage{Processor: x[0], From: x[1], To: x[2]})
		}
		return p
	}
	for _, x := range []struct {
		name       string
		p          *Plan
		assumption string
		meets      bool
		known      bool
	}{
		{"no k is one", &Plan{}, OnePeriodic, true, true},
		{"one", &Plan{K: 1}, OnePeriodic, true, true},
		{"two", &Plan{K: 2}, OnePeriodic, false, true},
		{"one is two", &Plan{K: 1}, TwoPeriodic, true, true},
		{"two are two", &Plan{K: 2}, TwoPeriodic, true, true},
		{"two are not three", &Plan{K: 2}, ThreePeriodic, false, true},
		{"three are three", &Plan{K: 3}, ThreePeriodic, true, true},
		{"a stage each", stages([3]int{0, 1, 2}, [3]int{1, 3, 4}), ContiguousAllocation, true, true},
		{"neighbours", stages([3]int{0, 1, 2}, [3]int{0, 3, 3}, [3]int{1, 4, 4}), ContiguousAllocation, true, true},
		{"apart", stages([3]int{0, 1, 2}, [3]int{1, 3, 3}, [3]int{0, 4, 4}), ContiguousAllocation, false, true},
		{"apart, in another order", stages([3]int{0, 1, 2}, [3]int{0, 4, 4}, [3]int{1, 3, 3}), ContiguousAllocation, false, true},
		{"another assumption", &Plan{}, "in graph order", false, false},
	} {
		if meets, known := x.p.Meets(x.assumption); meets != x.meets || known != x.known {
			t.Errorf("%s: %v %v", x.name, meets, known)
		}
	}
}
