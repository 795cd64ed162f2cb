// SPDX-License-Identifier: Apache-2.0
// What the parts of the program one_world call of each other.
#pragma once

int second_rank();  // in another translation unit
int second_sum(int value);

#define PLUGIN __attribute__((visibility("default")))
PLUGIN int plugin_rank();  // in a shared library that hides all but these
PLUGIN int plugin_sum(int value);
PLUGIN void plugin_throw();
