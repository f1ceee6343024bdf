package plan

// ActivationOffload is the problem of one device with one link to the host: F_all and B of
// every layer in the fixed order, and transfers OpO and OpP of ā_0..ā_{N-1} ([000], [004]
// chapter 3).
const ActivationOffload = "activation-offload"
