package check

// tight says how often a bound was equal to the optimum of exhaustive search when its formulation was
// entered, of [DefaultCases] instances of up to so many layers with seed 0. A formulation that gets
// stronger gets a larger number; to make one weaker is to change it here, too.
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
