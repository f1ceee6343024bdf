package timeline

import (
	"io"

	"workbench/model/plan"
)

// drawers are what the problems name.
var drawers = map[string]Drawer{
	plan.Remat: Steps(), plan.Join: Steps(), plan.ActivationOffload: Offloading(), plan.RematOffload: Offloading(),
	plan.Swap: Swapping(), plan.Pipeline: Patterns(), plan.WeightOffload: Weights(),
}

func drawSVG(w io.Writer, in plan.Instance, p *plan.Plan, o Options) error {
	return drawers[p.Problem].SVG(w, in, p, o)
}

func drawTrace(w io.Writer, in plan.Instance, p *plan.Plan) error {
	return drawers[p.Problem].Trace(w, in, p)
}
