package solve

// GPU is a device that --gpu may name. Memory is in bytes, links in bytes per second: the rate of a copy to the
// host and to another GPU of its node in one direction, about 80 % of the specified rate of the bus.
type GPU struct {
	Name   string
	Memory float64
	Link   float64
	Peer   float64
}

const gib = 1 << 30

// GPUs returns the devices that --gpu may name, from their makers' data sheets.
func GPUs() []GPU {
	const pcie3, pcie4, pcie5, nvlinkC2C = 12e9, 25e9, 50e9, 360e9
	const nvlink2, nvlink3, nvlink4, nvlink5, infinity3, infinity4 = 120e9, 240e9, 360e9, 720e9, 40e9, 50e9
	return []GPU{
		{"t4", 16 * gib, pcie3, pcie3},
		{"v100", 32 * gib, pcie3, nvlink2},
		{"a10", 24 * gib, pcie4, pcie4},
		{"rtx3090", 24 * gib, pcie4, pcie4},
		{"rtx4090", 24 * gib, pcie4, pcie4},
		{"l4", 24 * gib, pcie4, pcie4},
		{"l40s", 48 * gib, pcie4, pcie4},
		{"a100-40", 40 * gib, pcie4, nvlink3},
		{"a100", 80 * gib, pcie4, nvlink3},
		{"h100", 80 * gib, pcie5, nvlink4},
		{"h200", 141e9, pcie5, nvlink4},
		{"gh200", 96 * gib, nvlinkC2C, nvlink4},
		{"b200", 180e9, pcie5, nvlink5},
		{"mi250x", 64 * gib, pcie4, infinity3},
		{"mi300x", 192 * gib, pcie5, infinity4},
	}
}
