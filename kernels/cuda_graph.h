// CUDA graphs, for graph.cpp where CUDA is built in.
#pragma once

#include <functional>
#include <memory>

#include "kernels/device.h"
#include "kernels/graph.h"

namespace moetune {

std::shared_ptr<Graph::Recorded> record_cuda_graph(Cuda& cuda, const std::function<void()>& ops);

}  // namespace moetune
