package remat

import "math"

// A stepFunction is a non-increasing step function of memory: from m[i] bytes
// on it is c[i] seconds, below m[0] infinite. m increases, c decreases. The
// breakpoints are all there is of it.
type stepFunction struct{ m, c []float64 }

// value returns the value at memory m. O(log breakpoints).
func (f *stepFunction) value(m float64) float64 {
	if i := ahead(f.m, -1, m); i >= 0 {
		return f.c[i]
	}
	return math.Inf(1)
}

// push appends a breakpoint of more memory and a smaller value than the last,
// or of as much memory, which then replaces it.
func (f *stepFunction) push(m, c float64) {
	if k := len(f.m) - 1; k >= 0 && f.m[k] == m {
		f.c[k] = c
		return
	}
	f.m, f.c = append(f.m, m), append(f.c, c)
}

func (f *stepFunction) reset() { f.m, f.c = f.m[:0], f.c[:0] }

// shifted sets f(m) = g(m − by) for m from least to most.
func (f *stepFunction) shifted(g *stepFunction, by, least, most float64) {
	f.reset()
	for i, m := range g.m {
		m = max(m+by, least)
		if m > most {
			return
		}
		f.push(m, g.c[i])
	}
}

// An envelope is the minimum of the step functions it was lowered to.
type envelope struct {
	stepFunction
	gain, next stepFunction // a new function where it is below, and the new minimum
}

// lower lowers e to plus + f(m) + g(m − by) where that is below it, for m from least to most. It
// skips parts that cannot be below: until the sum falls below the current value of e, it is not
// below e, which is nonincreasing too. O(breakpoints), usually much less.
func (e *envelope) lower(plus float64, f, g *stepFunction, by, least, most float64) {
	if len(f.m) == 0 || len(g.m) == 0 {
		return
	}
	e.gain.reset()
	end := plus + f.c[len(f.c)-1] + g.c[len(g.c)-1] // the minimum of the sum
	m := max(least, f.m[0], g.m[0]+by)
	if len(e.m) > 0 && e.m[0] <= m && e.c[0] <= end {
		return
	}
	i, j, k := ahead(f.m, 0, m), ahead(g.m, 0, m-by), ahead(e.m, -1, m)
	for m <= most {
		now := math.Inf(1)
		if k >= 0 {
			now = e.c[k]
		}
		if end >= now {
			break
		}
		// Up to breakpoints p of f and q of g the sum is not below now.
		p, q := i, j
		if c := plus + f.c[i] + g.c[j]; c < now {
			e.gain.push(m, c)
		} else {
			for stride := 1; ; stride *= 2 {
				x, y := min(p+stride, len(f.c)-1), min(q+stride, len(g.c)-1)
				if plus+f.c[x]+g.c[y] < now {
					break
				}
				p, q = x, y
			}
		}
		m = math.Inf(1)
		if p+1 < len(f.m) {
			m = f.m[p+1]
		}
		if q+1 < len(g.m) {
			m = min(m, g.m[q+1]+by)
		}
		if math.IsInf(m, 1) {
			break
		}
		if p+1 < len(f.m) && f.m[p+1] <= m {
			i = p + 1
		} else if p > i {
			i = ahead(f.m, i, m)
		}
		if q+1 < len(g.m) && g.m[q+1] <= m-by {
			j = q + 1
		} else if q > j {
			j = ahead(g.m, j, m-by)
		}
		k = ahead(e.m, k, m)
	}
	if len(e.gain.m) > 0 {
		e.merge()
	}
}

// merge makes e the minimum of e and e.gain, which is below e at each of its
// breakpoints.
func (e *envelope) merge() {
	out, f, g := &e.next, &e.stepFunction, &e.gain
	i := ahead(f.m, -1, g.m[0])
	if i >= 0 && f.m[i] == g.m[0] {
		i--
	}
	i++ // f is the minimum before g starts
	out.m, out.c = append(out.m[:0], f.m[:i]...), append(out.c[:0], f.c[:i]...)
	for j, m := range g.m {
		c, until := g.c[j], math.Inf(1)
		if j+1 < len(g.m) {
			until = g.m[j+1]
		}
		out.m, out.c = append(out.m, m), append(out.c, c)
		for i < len(f.m) && f.c[i] >= c {
			i++
		}
		to := i
		for to < len(f.m) && f.m[to] < until {
			to++
		}
		out.m, out.c = append(out.m, f.m[i:to]...), append(out.c, f.c[i:to]...)
		i = to
	}
	e.stepFunction, e.next = e.next, e.stepFunction
}

// ahead returns the last index with xs[index] ≤ x, looking from a known index
// of that kind, or from -1.
func ahead(xs []float64, from int, x float64) int {
	stride := 1
	for from+stride < len(xs) && xs[from+stride] <= x {
		from += stride
		stride *= 2
	}
	for ; stride > 0; stride /= 2 {
		if from+stride < len(xs) && xs[from+stride] <= x {
			from += stride
		}
	}
	return from
}

// floats keeps copies of step functions in large blocks.
type floats struct {
	blocks [][]float64
	used   int // blocks in use; the last one has space
}

func (x *floats) keep(f *stepFunction) stepFunction {
	n := len(f.m)
	if n == 0 {
		return stepFunction{}
	}
	for x.used == 0 || cap(x.blocks[x.used-1])-len(x.blocks[x.used-1]) < 2*n {
		if x.used == len(x.blocks) {
			x.blocks = append(x.blocks, make([]float64, 0, max(2*n, 1<<15)))
		}
		x.blocks[x.used] = x.blocks[x.used][:0]
		x.used++
	}
	b := &x.blocks[x.used-1]
	*b = append(append(*b, f.m...), f.c...)
	kept := (*b)[len(*b)-2*n:]
	return stepFunction{kept[:n:n], kept[n:]}
}

// reset gives up what was kept.
func (x *floats) reset() { x.used = 0 }
