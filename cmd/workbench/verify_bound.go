package main

import (
	"io"
	"os"

	"workbench/bench/atomicfile"
	"workbench/bench/solve"
	"workbench/bench/solve/formulate"
	"workbench/model/certificate"
	"workbench/model/milp"
)

// verifyBound makes the certificate's model again, of the instance or the file of a model, and
// checks the proof in exact arithmetic. memoryModel is the one that it has to be in, "": any. names
// are the instance and, if the proof is to be written as VIPR, the file for that.
func verifyBound(s streams, o *common, file, memoryModel string, names []string) error {
	if err := o.check(s); err != nil {
		return err
	}
	c, v, err := prove(s, file, names[0], memoryModel)
	if err != nil {
		return err
	}
	results := s.out
	if len(names) > 1 && v.Valid {
		if names[1] == atomicfile.Standard {
			results = s.err
		}
		if err := atomicfile.Write(names[1], s.out, func(w io.Writer) error {
			_, err := c.WriteVIPR(w, v.Data)
			return err
		}); err != nil {
			return err
		}
	}
	if err := o.print(results, "", v, v.Text); err != nil {
		return err
	}
	if !v.Valid {
		return &exitError{exitInvalid}
	}
	return nil
}

// prove checks the certificate in a file about an instance, or about the model of a file.
func prove(s streams, file, spec, memoryModel string) (*certificate.Certificate, *formulate.Proved, error) {
	if milp.IsFile(spec) {
		f, err := formulate.OpenFile(spec)
		if err != nil {
			return nil, nil, err
		}
		c, err := readCertificate(file)
		if err != nil {
			return nil, nil, err
		}
		return c, f.Prove(c, file), nil
	}
	in, err := solve.Load(spec, s.in)
	if err != nil {
		return nil, nil, err
	}
	c, err := readCertificate(file)
	if err != nil {
		return nil, nil, err
	}
	return c, formulate.Prove(in, c, file, memoryModel), nil
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
