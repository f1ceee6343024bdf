package check

// tight is the number of instances on which a bound equalled the optimum of exhaustive search when its formulation
// was added. It counts the [DefaultCases] instances of at most the given number of layers with seed 0. A change
// that strengthens or weakens a formulation changes its entry.
var tight = map[string]struct{ layers, equal int }{
	"chain-milp-bound": {6, 196},
	"checkmate-beside": {6, 194},
	"flush-bounds":     {3, 187},
	"offload":          {5, 200},
	"pipeline-closed":  {3, 191},
	"placement-load":   {6, 200},
	"remat-offload":    {4, 187},
	"swap":             {6, 191},
	"training-beside":  {3, 195},
	"weights":          {4, 147},
	"weights-nested":   {4, 176},
}
