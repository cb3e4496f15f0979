// CUDA graphs, for graph.cpp and graph_pieces.cpp where CUDA is built in.
#pragma once

#include <functional>
#include <memory>

#include "kernels/device.h"
#include "kernels/graph.h"

namespace moetune {

std::shared_ptr<Graph::Recorded> record_cuda_graph(Cuda& cuda, const std::function<void()>& ops);

// The same in two halves: what is enqueued in between runs at each launch, not now.
void begin_cuda_capture(Cuda& cuda);
std::shared_ptr<Graph::Recorded> end_cuda_capture(Cuda& cuda);  // null where nothing was enqueued
void abandon_cuda_capture(Cuda& cuda);                          // also where none was begun

}  // namespace moetune
