package zoo

import (
	"fmt"

	"workbench/model/nearest"
)

// Device is a GPU in the cost model: a roofline with a fixed cost per kernel. Rates are peak rates, from the
// vendor's data sheet, of the SXM version where there are several; efficiencies are the fractions that training
// attains.
type Device struct {
	Name      string
	Memory    float64 // bytes
	Single    float64 // FLOP/s in fp32, without TF32
	Half      float64 // FLOP/s in fp16 on tensor cores, dense
	Bandwidth float64 // bytes/s of its own memory

	SingleEfficiency, HalfEfficiency, BandwidthEfficiency float64
	Launch                                                float64 // seconds per kernel
}

// Devices lists the known devices.
func Devices() []Device {
	const gib = 1 << 30
	typical := func(d Device) Device {
		d.SingleEfficiency, d.HalfEfficiency, d.BandwidthEfficiency, d.Launch = 0.75, 0.45, 0.8, 5e-6
		return d
	}
	return []Device{
		typical(Device{Name: "V100-16GB", Memory: 16 * gib, Single: 15.7e12, Half: 125e12, Bandwidth: 900e9}),
		typical(Device{Name: "V100-32GB", Memory: 32 * gib, Single: 15.7e12, Half: 125e12, Bandwidth: 900e9}),
		typical(Device{Name: "A100-40GB", Memory: 40 * gib, Single: 19.5e12, Half: 312e12, Bandwidth: 1555e9}),
		typical(Device{Name: "A100-80GB", Memory: 80 * gib, Single: 19.5e12, Half: 312e12, Bandwidth: 2039e9}),
		typical(Device{Name: "H100-80GB", Memory: 80 * gib, Single: 66.9e12, Half: 989.4e12, Bandwidth: 3350e9}),
		typical(Device{Name: "T4", Memory: 16 * gib, Single: 8.1e12, Half: 65e12, Bandwidth: 320e9}),
	}
}

func deviceNames() []string {
	var names []string
	for _, d := range Devices() {
		names = append(names, d.Name)
	}
	return names
}

// DeviceNamed returns the device of that name.
func DeviceNamed(name string) (Device, error) {
	for _, d := range Devices() {
		if d.Name == name {
			return d, nil
		}
	}
	return Device{}, fmt.Errorf("device %q is unknown; %s", name, nearest.Hint(name, deviceNames()))
}

// time returns the roofline time of w: arithmetic and memory traffic overlap,
// launches do not.
func (d *Device) time(w work, p precision) float64 {
	rate := d.Single * d.SingleEfficiency
	if p == half {
		rate = d.Half * d.HalfEfficiency
	}
	return max(w.flops/rate, w.bytes/(d.Bandwidth*d.BandwidthEfficiency)) + float64(w.kernels)*d.Launch
}
