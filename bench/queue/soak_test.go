package queue

func childOrContinue() bool { return false }
