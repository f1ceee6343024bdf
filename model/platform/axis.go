package platform

// AxisUnit is a unit of an axis or a column.
type AxisUnit struct {
	Name string
	Size float64 // in bytes or seconds
}

var (
	axisBytes   = []AxisUnit{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}
	axisSeconds = []AxisUnit{{"s", 1}, {"ms", 1e-3}, {"µs", 1e-6}, {"ns", 1e-9}}
)

// ByteUnit returns the unit for an axis of sizes up to most.
func ByteUnit(most float64) AxisUnit { return unitFor(most, axisBytes) }

// TimeUnit returns the unit for an axis of durations up to most seconds.
func TimeUnit(most float64) AxisUnit { return unitFor(most, axisSeconds) }

// unitFor returns the largest unit of which most is at least one: that in which
// texts write most.
func unitFor(most float64, units []AxisUnit) AxisUnit {
	for _, u := range units {
		if most >= u.Size {
			return u
		}
	}
	return units[len(units)-1]
}
