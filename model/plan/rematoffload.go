package plan

// RematOffload is the problem of one device with one link to the host: the operations of
// [Remat] with transfers OpO and OpP of any stored a_ℓ or ā_ℓ ([004] chapter 4).
const RematOffload = "remat-offload"
