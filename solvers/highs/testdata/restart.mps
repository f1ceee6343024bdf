* "pipeline-allocation"
* column s[[1_1_0_0]] is "s[[1 1 0 0]]"
* column s[[1_2_0_1]] is "s[[1 2 0 1]]"
* column s[[1_3_0_2]] is "s[[1 3 0 2]]"
* column s[[2_2_0_3]] is "s[[2 2 0 3]]"
* column s[[2_2_1_4]] is "s[[2 2 1 4]]"
* column s[[2_3_0_5]] is "s[[2 3 0 5]]"
* column s[[2_3_1_6]] is "s[[2 3 1 6]]"
* column s[[3_3_0_7]] is "s[[3 3 0 7]]"
* column s[[3_3_1_8]] is "s[[3 3 1 8]]"
* column s[[3_3_2_9]] is "s[[3 3 2 9]]"
* row another_processor[0] is "another processor[0]"
* row another_processor[1] is "another processor[1]"
* row another_processor[2] is "another processor[2]"
* row another_processor[3] is "another processor[3]"
* row another_processor[4] is "another processor[4]"
* row all_loads[0] is "all loads[0]"
* row memory_on_average[0] is "memory on average[0]"
* row memory_while_B[0] is "memory while B[0]"
* row memory_while_F[0] is "memory while F[0]"
* row memory_while_B[1] is "memory while B[1]"
* row memory_while_F[1] is "memory while F[1]"
* row memory_while_B[2] is "memory while B[2]"
* row memory_while_F[2] is "memory while F[2]"
* row memory_while_B[3] is "memory while B[3]"
* row memory_while_F[3] is "memory while F[3]"
* row memory_while_B[4] is "memory while B[4]"
* row memory_while_F[4] is "memory while F[4]"
* row numbers_of_processors[0] is "numbers of processors[0]"
* row numbers_of_processors[1] is "numbers of processors[1]"
* row numbers_of_processors[2] is "numbers of processors[2]"
NAME          pipeline-allocation
ROWS
 N OBJ
 E path[0]
 E path[1]
 E path[2]
 E path[3]
 L another_processor[0]
 L another_processor[1]
 L another_processor[2]
 L another_processor[3]
 L another_processor[4]
 G load[0]
 G load[1]
 G load[2]
 G cut[0]
 G cut[1]
 G all_loads[0]
 L memory_on_average[0]
 L memory_while_B[0]
 L memory_while_F[0]
 L memory_while_B[1]
 L memory_while_F[1]
 L memory_while_B[2]
 L memory_while_F[2]
 L memory_while_B[3]
 L memory_while_F[3]
 L memory_while_B[4]
 L memory_while_F[4]
 L numbers_of_processors[0]
 L numbers_of_processors[1]
 L numbers_of_processors[2]
COLUMNS
  T OBJ 2.1666666666666665
  T load[0] 1
  T load[1] 1
  T load[2] 1
  T cut[0] 1
  T cut[1] 1
  T all_loads[0] 3
 M0 'MARKER' 'INTORG'
  s[[1_1_0_0]] path[0] 1
  s[[1_1_0_0]] path[1] -1
  s[[1_1_0_0]] another_processor[0] 1
  s[[1_1_0_0]] load[0] -2.307692307692308
  s[[1_1_0_0]] cut[0] -1.8461538461538463
  s[[1_1_0_0]] memory_on_average[0] 161.22004357298474
  s[[1_1_0_0]] memory_while_B[0] 352.94117647058823
  s[[1_1_0_0]] memory_while_F[0] 176.47058823529412
  s[[1_1_0_0]] memory_while_B[1] 176.47058823529412
  s[[1_1_0_0]] memory_while_F[1] 176.47058823529412
  s[[1_1_0_0]] memory_while_B[2] 176.47058823529412
  s[[1_1_0_0]] memory_while_F[2] 176.47058823529412
  s[[1_1_0_0]] numbers_of_processors[0] -1
  s[[1_1_0_0]] numbers_of_processors[1] -1
  s[[1_2_0_1]] path[0] 1
  s[[1_2_0_1]] path[2] -1
  s[[1_2_0_1]] another_processor[2] 1
  s[[1_2_0_1]] load[0] -4.615384615384615
  s[[1_2_0_1]] cut[1] -4.615384615384616
  s[[1_2_0_1]] memory_on_average[0] 392.156862745098
  s[[1_2_0_1]] memory_while_B[0] 529.4117647058823
  s[[1_2_0_1]] memory_while_F[0] 352.94117647058823
  s[[1_2_0_1]] memory_while_B[1] 588.2352941176471
  s[[1_2_0_1]] memory_while_F[1] 529.4117647058823
  s[[1_2_0_1]] memory_while_B[2] 352.94117647058823
  s[[1_2_0_1]] memory_while_F[2] 352.94117647058823
  s[[1_2_0_1]] numbers_of_processors[0] -1
  s[[1_2_0_1]] numbers_of_processors[1] -1
  s[[1_3_0_2]] path[0] 1
  s[[1_3_0_2]] path[3] -1
  s[[1_3_0_2]] load[0] -6
  s[[1_3_0_2]] memory_on_average[0] 113.28976034858387
  s[[1_3_0_2]] memory_while_B[0] 235.2941176470588
  s[[1_3_0_2]] memory_while_F[0] 58.8235294117647
  s[[1_3_0_2]] memory_while_B[1] 294.11764705882354
  s[[1_3_0_2]] memory_while_F[1] 235.2941176470588
  s[[1_3_0_2]] memory_while_B[2] 470.5882352941176
  s[[1_3_0_2]] memory_while_F[2] 352.94117647058823
  s[[1_3_0_2]] numbers_of_processors[0] -1
  s[[1_3_0_2]] numbers_of_processors[1] -1
  s[[2_2_0_3]] path[1] 1
  s[[2_2_0_3]] path[2] -1
  s[[2_2_0_3]] another_processor[0] 1
  s[[2_2_0_3]] another_processor[2] 1
  s[[2_2_0_3]] load[0] -2.3076923076923075
  s[[2_2_0_3]] cut[1] -4.615384615384616
  s[[2_2_0_3]] memory_on_average[0] 453.1590413943355
  s[[2_2_0_3]] memory_while_B[0] 411.7647058823529
  s[[2_2_0_3]] memory_while_F[0] 411.7647058823529
  s[[2_2_0_3]] memory_while_B[1] 647.0588235294117
  s[[2_2_0_3]] memory_while_F[1] 588.2352941176471
  s[[2_2_0_3]] memory_while_B[2] 411.7647058823529
  s[[2_2_0_3]] memory_while_F[2] 411.7647058823529
  s[[2_2_0_3]] numbers_of_processors[1] -1
  s[[2_2_1_4]] path[1] 1
  s[[2_2_1_4]] path[2] -1
  s[[2_2_1_4]] another_processor[1] 1
  s[[2_2_1_4]] another_processor[3] 1
  s[[2_2_1_4]] load[1] -2.3076923076923075
  s[[2_2_1_4]] cut[1] -4.615384615384616
  s[[2_2_1_4]] memory_while_B[3] 647.0588235294117
  s[[2_2_1_4]] memory_while_F[3] 588.2352941176471
  s[[2_2_1_4]] memory_while_B[4] 411.7647058823529
  s[[2_2_1_4]] memory_while_F[4] 411.7647058823529
  s[[2_2_1_4]] numbers_of_processors[0] 1
  s[[2_2_1_4]] numbers_of_processors[2] -1
  s[[2_3_0_5]] path[1] 1
  s[[2_3_0_5]] path[3] -1
  s[[2_3_0_5]] another_processor[0] 1
  s[[2_3_0_5]] load[0] -3.6923076923076925
  s[[2_3_0_5]] memory_on_average[0] 196.078431372549
  s[[2_3_0_5]] memory_while_B[0] 117.6470588235294
  s[[2_3_0_5]] memory_while_F[0] 117.6470588235294
  s[[2_3_0_5]] memory_while_B[1] 352.94117647058823
  s[[2_3_0_5]] memory_while_F[1] 294.11764705882354
  s[[2_3_0_5]] memory_while_B[2] 529.4117647058823
  s[[2_3_0_5]] memory_while_F[2] 411.7647058823529
  s[[2_3_0_5]] numbers_of_processors[1] -1
  s[[2_3_1_6]] path[1] 1
  s[[2_3_1_6]] path[3] -1
  s[[2_3_1_6]] another_processor[1] 1
  s[[2_3_1_6]] load[1] -3.6923076923076925
  s[[2_3_1_6]] memory_while_B[3] 352.94117647058823
  s[[2_3_1_6]] memory_while_F[3] 294.11764705882354
  s[[2_3_1_6]] memory_while_B[4] 529.4117647058823
  s[[2_3_1_6]] memory_while_F[4] 411.7647058823529
  s[[2_3_1_6]] numbers_of_processors[0] 1
  s[[2_3_1_6]] numbers_of_processors[2] -1
  s[[3_3_0_7]] path[2] 1
  s[[3_3_0_7]] path[3] -1
  s[[3_3_0_7]] another_processor[2] 1
  s[[3_3_0_7]] load[0] -1.3846153846153846
  s[[3_3_0_7]] memory_on_average[0] 331.15468409586055
  s[[3_3_0_7]] memory_while_B[0] 294.11764705882354
  s[[3_3_0_7]] memory_while_F[0] 294.11764705882354
  s[[3_3_0_7]] memory_while_B[1] 294.11764705882354
  s[[3_3_0_7]] memory_while_F[1] 294.11764705882354
  s[[3_3_0_7]] memory_while_B[2] 705.8823529411765
  s[[3_3_0_7]] memory_while_F[2] 588.2352941176471
  s[[3_3_1_8]] path[2] 1
  s[[3_3_1_8]] path[3] -1
  s[[3_3_1_8]] another_processor[3] 1
  s[[3_3_1_8]] load[1] -1.3846153846153846
  s[[3_3_1_8]] memory_while_B[3] 294.11764705882354
  s[[3_3_1_8]] memory_while_F[3] 294.11764705882354
  s[[3_3_1_8]] memory_while_B[4] 705.8823529411765
  s[[3_3_1_8]] memory_while_F[4] 588.2352941176471
  s[[3_3_1_8]] numbers_of_processors[1] 1
  s[[3_3_2_9]] path[2] 1
  s[[3_3_2_9]] path[3] -1
  s[[3_3_2_9]] another_processor[4] 1
  s[[3_3_2_9]] load[2] -1.3846153846153846
  s[[3_3_2_9]] numbers_of_processors[2] 1
 M1 'MARKER' 'INTEND'
RHS
  RHS path[0] 1
  RHS path[3] -1
  RHS another_processor[0] 1
  RHS another_processor[1] 1
  RHS another_processor[2] 1
  RHS another_processor[3] 1
  RHS another_processor[4] 1
  RHS all_loads[0] 5.999999994
  RHS memory_on_average[0] 1000.0000010000001
  RHS memory_while_B[0] 1000.0000010000001
  RHS memory_while_F[0] 1000.0000010000001
  RHS memory_while_B[1] 1000.0000010000001
  RHS memory_while_F[1] 1000.0000010000001
  RHS memory_while_B[2] 1000.0000010000001
  RHS memory_while_F[2] 1000.0000010000001
  RHS memory_while_B[3] 1000.0000010000001
  RHS memory_while_F[3] 1000.0000010000001
  RHS memory_while_B[4] 1000.0000010000001
  RHS memory_while_F[4] 1000.0000010000001
BOUNDS
 UP BND T 12.461538474000003
 BV BND s[[1_1_0_0]]
 BV BND s[[1_2_0_1]]
 BV BND s[[1_3_0_2]]
 BV BND s[[2_2_0_3]]
 BV BND s[[2_2_1_4]]
 BV BND s[[2_3_0_5]]
 BV BND s[[2_3_1_6]]
 BV BND s[[3_3_0_7]]
 BV BND s[[3_3_1_8]]
 BV BND s[[3_3_2_9]]
ENDATA
