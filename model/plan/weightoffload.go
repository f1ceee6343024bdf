package plan

// WeightOffload is the name of the problem of [001].
const WeightOffload = "weight-offload"
