// A box of the catalogue beside measured ones: the trials of one run, carried over by the roofline.
#pragma once

#include <string>
#include <vector>

#include "engine/facts/launch_profile.h"
#include "engine/facts/model_spec.h"
#include "tuner/compare/comparison.h"
#include "tuner/compare/roofline.h"
#include "tuner/hardware_catalogue.h"

namespace moetune {

// Where a prediction starts from.
struct MeasuredRun {
  LaunchProfile profile;
  ModelSpec model;
  std::vector<ProfilePoint>
      points;  // every trial that was measured; of a bare profile: its front, default and runner-up
};

// own: the box of the catalogue that the run was measured on; nullptr: not in it. Its measured rate over its
// peak is taken for the other box too. Numbers come out as predicted; energy is not predicted. Where nothing
// fits, missing_bytes says by how much the smallest configuration does not.
ComparedBox predicted_box(const MeasuredRun& run, const CatalogueBox& box, const CatalogueBox* own);

}  // namespace moetune
