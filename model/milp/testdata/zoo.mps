* "zoo: one of everything"
* a maximisation, written as the minimisation of its negative
* column at[conv_1] is "at[conv 1]"
* column at[_] is "at[é]"
* column _unused is "unused"
* row memory[gpu_0] is "memory[gpu 0]"
* row memory[gpu_1] is "memory[gpu 1]"
NAME          zoo_one_of_everything FREE
ROWS
 N OBJ
 L memory[gpu_0]
 L memory[gpu_1]
 E once[0]
 L once[1]
 G odd[0]
 N odd[1]
 L odd[2]
 G odd[3]
COLUMNS
 M0 'MARKER' 'INTORG'
  x[0,0] OBJ -2
  x[0,0] memory[gpu_0] 3
  x[0,1] OBJ -1
  x[0,1] memory[gpu_0] 2.5
  x[1,0] memory[gpu_1] 1e+06
  x[1,0] once[0] 1
  x[1,1] OBJ 4
  x[1,1] once[0] 1
  n[0] OBJ -1.5
  n[0] memory[gpu_0] 1
  n[1] OBJ 0.25
  n[1] once[1] 1
  n[2] OBJ -1
 M1 'MARKER' 'INTEND'
  free OBJ 1
  free odd[0] 1
  free odd[1] 1
  negative OBJ -1
  negative once[1] 0.1
  negative odd[0] 1
  end OBJ -1
  end odd[3] 1
  at[conv_1] OBJ -0.5
  at[conv_1] memory[gpu_1] -1
  at[conv_1] odd[3] -1
  at[e2] OBJ -0.1
  at[e2] odd[3] -1
  at[_] OBJ 0
  unused OBJ 0
 M2 'MARKER' 'INTORG'
  _unused OBJ 0
 M3 'MARKER' 'INTEND'
  OFFSET OBJ 7.5
RHS
  RHS memory[gpu_0] 10
  RHS once[0] 1
  RHS once[1] 4.75
  RHS odd[0] -30
  RHS odd[2] 3
  RHS odd[3] -20
RANGES
  RNG once[1] 6.75
BOUNDS
 BV BND x[0,0]
 BV BND x[0,1]
 BV BND x[1,0]
 BV BND x[1,1]
 LO BND n[0] 0
 PL BND n[0]
 LO BND n[1] -7
 UP BND n[1] 12
 MI BND n[2]
 UP BND n[2] -2
 FR BND free
 MI BND negative
 UP BND negative -1.5
 FX BND end 2.25
 UP BND unused 1
 LO BND _unused 0
 PL BND _unused
 FX BND OFFSET 1
ENDATA
