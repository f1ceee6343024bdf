package stats

import "math"

// tQuantile returns the q-quantile of Student's t with df > 0 degrees of
// freedom, 0 < q < 1, to about ten digits: bisection of its distribution.
func tQuantile(q, df float64) float64 {
	if q < 0.5 {
		return -tQuantile(1-q, df)
	}
	low, high := 0.0, 1.0
	for tCDF(high, df) < q && high < 1e15 {
		high *= 2
	}
	for range 200 {
		if middle := (low + high) / 2; tCDF(middle, df) < q {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}

// TTail returns P(|T| ≥ |t|) of Student's t with df degrees of freedom.
func TTail(t, df float64) float64 {
	if math.IsInf(t, 0) {
		return 0
	}
	return betaInc(df/2, 0.5, df/(df+t*t))
}

// tCDF is the distribution of t ≥ 0.
func tCDF(t, df float64) float64 { return 1 - TTail(t, df)/2 }

// betaInc is the regularised incomplete beta function I_x(a, b), by its
// continued fraction (DLMF 8.17.22) evaluated by Lentz's method.
func betaInc(a, b, x float64) float64 {
	switch {
	case x <= 0:
		return 0
	case x >= 1:
		return 1
	case x > (a+1)/(a+b+2): // where the fraction converges fast: DLMF 8.17.4
		return 1 - betaInc(b, a, 1-x)
	}
	ab, _ := math.Lgamma(a + b)
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	front := math.Exp(ab-la-lb+a*math.Log(x)+b*math.Log1p(-x)) / a
	const tiny = 1e-300
	nonzero := func(v float64) float64 {
		if math.Abs(v) < tiny {
			return tiny
		}
		return v
	}
	c, d := 1.0, 1/nonzero(1-(a+b)*x/(a+1))
	f := d
	for m := 1.0; m < 10_000; m++ {
		even := m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		d = 1 / nonzero(1+even*d)
		c = nonzero(1 + even/c)
		f *= c * d
		odd := -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		d = 1 / nonzero(1+odd*d)
		c = nonzero(1 + odd/c)
		f *= c * d
		if math.Abs(c*d-1) < 1e-15 {
			break
		}
	}
	return front * f
}
