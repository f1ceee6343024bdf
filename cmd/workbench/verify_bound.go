package main

import (
	"os"

	"workbench/bench/solve"
	"workbench/bench/solve/formulate"
	"workbench/model/certificate"
	"workbench/model/milp"
)

// verifyBound makes the certificate's model again, of the instance or the file of a model, and
// checks the proof in exact arithmetic. memoryModel is the one that it has to be in, "": any.
func verifyBound(s streams, o *common, file, spec, memoryModel string) error {
	if err := o.check(s); err != nil {
		return err
	}
	var v *formulate.Proved
	if milp.IsFile(spec) {
		f, err := formulate.OpenFile(spec)
		if err != nil {
			return err
		}
		c, err := readCertificate(file)
		if err != nil {
			return err
		}
		v = f.Prove(c, file)
	} else {
		in, err := solve.Load(spec, s.in)
		if err != nil {
			return err
		}
		c, err := readCertificate(file)
		if err != nil {
			return err
		}
		v = formulate.Prove(in, c, file, memoryModel)
	}
	if o.json() {
		if err := writeJSON(s.out, v); err != nil {
			return err
		}
	} else {
		v.Text(s.out)
	}
	if !v.Valid {
		return &exitError{exitInvalid}
	}
	return nil
}

func readCertificate(file string) (*certificate.Certificate, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, usagef("certificate %s cannot be read: %v", file, err)
	}
	defer f.Close()
	c, err := certificate.Read(f, file)
	return c, solve.InputError(err)
}
