// FIFO depths of block, in tokens of the named streams.
// group 0
// load x->linear.0->linear.0
#pragma HLS stream variable=load_x__to__linear_0__to__linear_0 depth=1
// load up->linear.1->linear.1
#pragma HLS stream variable=load_up__to__linear_1__to__linear_1 depth=1
// linear->gelu.0
#pragma HLS stream variable=linear__to__gelu_0 depth=1
