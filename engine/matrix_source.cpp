#include "engine/matrix_source.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "kernels/buffer.h"
#include "kernels/run.h"
#include "kernels/tile_layout.h"

namespace moetune {
namespace {

// Matrices are read and packed this many bytes at a time, so that loading needs little memory beside what it
// fills.
constexpr std::int64_t kPieceBytes = 1 << 20;
constexpr std::int64_t kPieceRows = 128;  // whole tiles and whole fp8 blocks: pieces of both are contiguous

// FNV-1a: which numbers a tensor gets depends on its name and on nothing else.
std::uint32_t number_of(std::string_view name) {
  std::uint32_t hash = 2166136261U;
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619U;
  return hash;
}

Generate generated(const GeneratedMatrix& matrix, const MatrixShape& part, void* destination) {
  Generate op;
  op.source = matrix.numbers;
  op.in = matrix.in;
  op.first_row = part.rows.begin;
  op.first_column = part.columns.begin;
  op.y = destination;
  op.layout = part.layout();
  return op;
}

void load_stored(FileSet& files, Device& device, Cpu& host, const StoredMatrix& source,
                 const MatrixShape& part, std::byte* destination) {
  const MatrixLayout layout = part.layout();
  std::vector<std::byte> staging;
  const std::int64_t rows_per_piece =
      std::max<std::int64_t>(1, kPieceBytes / source.row_bytes() / kPieceRows) * kPieceRows;
  for (std::int64_t first = 0; first < part.rows.count; first += rows_per_piece) {
    const std::int64_t rows = std::min(rows_per_piece, part.rows.count - first);
    const MatrixShape piece{part.type, {part.rows.begin + first, rows}, part.columns, part.packing};
    const MatrixLayout piece_layout = piece.layout();
    staging.resize(static_cast<std::size_t>(piece_layout.bytes));
    read_matrix(files, host, source, piece, staging.data());
    if (layout.packing == Packing::tiles) {
      const TileLayout tiles = TileLayout::of(part.type, rows, part.columns.count);
      copy_to_device(device, staging.data(), destination + first / kTileRows * tiles.tile_bytes,
                     tiles.tiles * tiles.tile_bytes);
      continue;
    }
    const std::int64_t scale_row_bytes = layout.scales_per_row * layout.scale_bytes;
    copy_to_device(device, staging.data(), destination + first * layout.row_bytes, rows * layout.row_bytes);
    copy_to_device(device, staging.data() + piece_layout.scales_offset,
                   destination + layout.scales_offset + first * scale_row_bytes, rows * scale_row_bytes);
  }
}

StoredMatrix stored(const Checkpoint::Matrix& matrix, int layer, int expert, const char* what) {
  return {.name = fmt::format("{} of expert {} in layer {}", what, expert, layer),
          .extent = matrix.extent,
          .type = matrix.view.type(),
          .out = matrix.view.dim(0),
          .in = matrix.view.dim(1)};
}

}  // namespace

NumberType shipped_type(const MatrixSource& source) {
  if (const auto* generated = std::get_if<GeneratedMatrix>(&source)) return generated->numbers.shipped;
  return std::get<StoredMatrix>(source).type;
}

float keeps_size(const NamedTensor& name) { return 1.0F / std::sqrt(static_cast<float>(name.shape.back())); }

MatrixSource matrix_source(const Checkpoint& checkpoint, const NamedTensor& name, int layer, NumberType type,
                           float deviation) {
  const std::int64_t out = name.shape.size() == 2 ? name.shape[0] : 1;
  if (checkpoint.spec().is_synthetic)
    return GeneratedMatrix{.numbers = {.seed = checkpoint.seed(),
                                       .layer = static_cast<std::uint32_t>(layer),
                                       .tensor = number_of(name.name),
                                       .shipped = type,
                                       .deviation = deviation},
                           .out = out,
                           .in = name.shape.back()};
  return StoredMatrix{.name = name.name,
                      .extent = checkpoint.extent(name.name),
                      .type = checkpoint.tensor(name.name).type(),
                      .out = out,
                      .in = name.shape.back()};
}

ExpertSources expert_sources(const Checkpoint& checkpoint, int layer, int expert) {
  const ModelSpec& spec = checkpoint.spec();
  if (spec.is_synthetic) {
    const ExpertTensors names = expert_tensors(spec, layer, expert);
    const auto generated = [&](const NamedTensor& name) {
      return matrix_source(checkpoint, name, layer, spec.checkpoint_type, keeps_size(name));
    };
    return {generated(names.gate), generated(names.up), generated(names.down)};
  }
  const Checkpoint::Expert found = checkpoint.expert(layer, expert);
  return {stored(found.gate, layer, expert, "gate"), stored(found.up, layer, expert, "up"),
          stored(found.down, layer, expert, "down")};
}

void read_source(FileSet& files, Cpu& cpu, const MatrixSource& source, const MatrixShape& part,
                 void* destination) {
  if (const auto* matrix = std::get_if<GeneratedMatrix>(&source))
    return run(cpu, generated(*matrix, part, destination));
  read_matrix(files, cpu, std::get<StoredMatrix>(source), part, destination);
}

void load_matrix(FileSet& files, Device& device, Cpu& host, const MatrixSource& source,
                 const MatrixShape& part, std::byte* destination) {
  if (const auto* matrix = std::get_if<GeneratedMatrix>(&source))
    return run(device, generated(*matrix, part, destination));
  load_stored(files, device, host, std::get<StoredMatrix>(source), part, destination);
}

std::vector<float> values_of(FileSet& files, Cpu& host, const MatrixSource& source) {
  if (const auto* matrix = std::get_if<GeneratedMatrix>(&source)) {
    std::vector<float> values(static_cast<std::size_t>(matrix->out * matrix->in));
    const auto in = static_cast<std::size_t>(matrix->in);
    host.pool().parallel_for(matrix->out, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        generate_row(matrix->numbers, row, 0,
                     std::span(values).subspan(static_cast<std::size_t>(row) * in, in));
    });
    return values;
  }
  StoredMatrix flat = std::get<StoredMatrix>(source);
  flat.in *= flat.out;
  flat.out = 1;
  const MatrixShape whole{NumberType::f32, {0, 1}, {0, flat.in}};
  std::vector<float> values(static_cast<std::size_t>(whole.layout().bytes) / sizeof(float));
  read_matrix(files, host, flat, whole, values.data());
  values.resize(static_cast<std::size_t>(flat.in));
  return values;
}

}  // namespace moetune
