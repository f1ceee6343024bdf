package training

// Blocks is a training step as the outer program of torchtitan's solver sees it: layers in
// the order of the forward, of which it knows bytes and, of all together, one time.
type Blocks struct {
	Saved []float64 // what the backward reads of the forward of a layer
	Must  []float64 // the part of Saved that cannot be made again
	Temp  []float64 // the most that a node of the layer's backward takes
	Time  float64   // of the forward of a layer, in the mean: seconds
	Back  float64   // of its backward
	Rest  float64   // what the backward reads of the forward of no layer
	Loss  float64   // the most that a node of no layer takes behind the forward
}

// Whole returns the memory at which the outer program keeps everything.
func (b *Blocks) Whole() float64 {
	sum, temp := b.Rest, b.Loss
	for l, a := range b.Saved {
		sum, temp = sum+a, max(temp, a+b.Temp[l])
	}
	return sum + temp
}
