// Package maxload has the integer programs of Tarnawski et al., NeurIPS 2020, for the least
// load of the busiest device, as their program has them
// (github.com/msr-fiddle/dnn-partitioning, throughput-ip/ip.py).
package maxload

import (
	"math"

	"workbench/model/maxload"
	"workbench/model/milp"
)

// source of the rows.
const source = "Tarnawski et al. 2020, throughput-ip/ip.py"

// about is the size of the largest coefficients.
const about = 1 << 10

// Program is a split as a MILP; Scale times the max-load is its objective.
type Program struct {
	Model *milp.Model
	Scale float64 // a power of two
	in    *maxload.Instance
	on    milp.Grid // part i is on device d
}

// New returns the program
//
//	min L,  Σ_d x_id = 1,  y_vd ≥ |x_id − x_jd| for the writer i of v and each reader j,
//	Σ_i a_i x_id + Σ_v cost_v y_vd ≤ L and Σ_i size_i x_id ≤ M on an accelerator d,
//	Σ_i c_i x_id ≤ L on a CPU d,
//	contiguous: z_id ≥ x_id, z_jd ≤ z_id and z_jd ≤ x_jd − x_id + 1 for i before j.
//
// The authors have two columns of a value, into a device and out of it, which are never 1
// together. Accelerators are alike, and so are CPUs: here the part k is on one of the
// first k+1 of a kind, which loses no split but for its numbering.
//
// Contiguous sets need not be those of a pipeline: two may read of each other
// ([maxload.Instance.Contiguous]), so that the optimum may be below the dynamic
// program's. O(devices·(parts + Σ readers + pairs)) columns and rows.
func New(in *maxload.Instance, contiguous bool) (*Program, error) {
	n, devices := len(in.Parts), in.Devices()
	m := milp.New("max-load")
	p := &Program{Model: m, in: in}
	longest, bytes := 0.0, in.Memory
	for _, x := range in.Parts {
		longest, bytes = max(longest, x.CPU), max(bytes, x.Size)
		if !math.IsInf(x.Accelerator, 1) {
			longest = max(longest, x.Accelerator)
		}
	}
	for _, v := range in.Values {
		longest = max(longest, v.Cost)
	}
	p.Scale = milp.PowerOfTwo(longest, about)
	unit := milp.PowerOfTwo(bytes, about)

	p.on = m.Grid("x", n, devices, milp.Binary, 0, 1)
	crosses := m.Grid("y", len(in.Values), in.Accelerators, milp.Continuous, 0, 1)
	most := m.Var("load", milp.Continuous, 0, math.Inf(1))
	var e milp.Expr
	m.Minimize(e.Add(1, most))
	once := m.Group("once", source)
	for i := range n {
		e.Reset()
		for d := range devices {
			e.Add(1, p.on.At(i, d))
		}
		once.Equal(&e, 1)
		for d := range devices {
			k := d
			if d >= in.Accelerators {
				k -= in.Accelerators
			}
			if k > i || d < in.Accelerators && math.IsInf(in.Parts[i].Accelerator, 1) {
				m.Fix(p.on.At(i, d), 0)
			}
		}
	}
	border, load, memory := m.Group("border", source), m.Group("load", source), m.Group("memory", source)
	for d := range in.Accelerators {
		for k, v := range in.Values {
			for _, r := range v.Parts[1:] {
				w := p.on.At(v.Parts[0], d)
				border.AtLeast(e.Reset().Add(1, crosses.At(k, d)).Add(-1, w).Add(1, p.on.At(r, d)), 0)
				border.AtLeast(e.Reset().Add(1, crosses.At(k, d)).Add(1, w).Add(-1, p.on.At(r, d)), 0)
			}
		}
		e.Reset()
		for i, x := range in.Parts {
			e.Add(unit*x.Size, p.on.At(i, d))
		}
		memory.AtMost(&e, unit*in.Memory)
	}
	for d := range devices {
		e.Reset().Add(-1, most)
		for i, x := range in.Parts {
			switch {
			case d >= in.Accelerators:
				e.Add(p.Scale*x.CPU, p.on.At(i, d))
			case !math.IsInf(x.Accelerator, 1):
				e.Add(p.Scale*x.Accelerator, p.on.At(i, d))
			}
		}
		if d < in.Accelerators {
			for k, v := range in.Values {
				e.Add(p.Scale*v.Cost, crosses.At(k, d))
			}
		}
		load.AtMost(&e, 0)
	}
	if contiguous {
		p.contiguous()
	}
	return p, m.Err()
}

// contiguous adds that no path leaves a device and comes back: z_id is 1 for a part that
// leads to one on d.
func (p *Program) contiguous() {
	m := p.Model
	z := m.Grid("z", len(p.in.Parts), p.in.Devices(), milp.Continuous, 0, 1)
	row := m.Group("contiguous", source)
	var e milp.Expr
	for d := range p.in.Devices() {
		for i := range p.in.Parts {
			row.AtLeast(e.Reset().Add(1, z.At(i, d)).Add(-1, p.on.At(i, d)), 0)
		}
		for _, b := range p.in.Before {
			i, j := b[0], b[1]
			row.AtMost(e.Reset().Add(1, z.At(j, d)).Add(-1, z.At(i, d)), 0)
			row.AtMost(e.Reset().Add(1, z.At(j, d)).Add(-1, p.on.At(j, d)).Add(1, p.on.At(i, d)), 1)
		}
	}
}

// Start returns what a split is as a start for a solver, NaN but for x.
func (p *Program) Start(device []int) []float64 {
	x := make([]float64, p.Model.NumCols())
	for j := range x {
		x[j] = math.NaN()
	}
	number := make([]int, p.in.Devices()) // of a device in the program
	for d := range number {
		number[d] = -1
	}
	accelerators, cpus := 0, p.in.Accelerators
	for i, d := range device {
		if number[d] < 0 {
			next := &cpus
			if d < p.in.Accelerators {
				next = &accelerators
			}
			number[d] = *next
			*next++
		}
		for c := range number {
			x[p.on.At(i, c).Index()] = 0
		}
		x[p.on.At(i, number[d]).Index()] = 1
	}
	return x
}

// Split returns the device of each part in a solution.
func (p *Program) Split(x []float64) []int {
	device := make([]int, len(p.in.Parts))
	for i := range device {
		for d := range p.in.Devices() {
			if x[p.on.At(i, d).Index()] > 0.5 {
				device[i] = d
			}
		}
	}
	return device
}
