package plan

// Names of problems of one device with one link to the host. Both problems
// transfer with the operations OpO and OpP.
const (
	// ActivationOffload: F_all of every layer and B of every layer in the fixed
	// order, and transfers of ā_0..ā_{N-1} ([000], [004] chapter 3).
	ActivationOffload = "activation-offload"
	// RematOffload: the operations of [Remat] with transfers of any stored a_ℓ
	// or ā_ℓ ([004] chapter 4).
	RematOffload = "remat-offload"
)
