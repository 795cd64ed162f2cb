// SPDX-License-Identifier: Apache-2.0
// The compiler: language checks, visibility, floating-point contraction and which optional parts
// are there. The only file with compiler-specific spelling; no definition in the library depends
// on a feature macro, features only add headers.
#pragma once

#if defined(_MSVC_LANG) ? _MSVC_LANG < 202002L : __cplusplus < 202002L
#error "hvdlite needs C++20: compile with -std=c++20 or later"
#elif !defined(__cpp_exceptions)
#error "hvdlite tells of errors by exceptions: compile without -fno-exceptions"
#else

/// 1 when Boost.MPI and MPI are to be used; CMake sets it, a bare compile looks for the headers.
#ifndef HVDLITE_WITH_MPI
#if __has_include(<mpi.h>) && __has_include(<boost/mpi/communicator.hpp>)
#define HVDLITE_WITH_MPI 1
#else
#define HVDLITE_WITH_MPI 0
#endif
#endif

/// 1 when Eigen's types are to be tensors; CMake sets it, a bare compile looks for the header.
#ifndef HVDLITE_WITH_EIGEN
#if __has_include(<Eigen/Core>)
#define HVDLITE_WITH_EIGEN 1
#else
#define HVDLITE_WITH_EIGEN 0
#endif
#endif

/// Exceptions and the accessors of process-wide objects: one of each in a process, even when a
/// program and its shared libraries are compiled with hidden visibility.
#define HVDLITE_EXPORT __attribute__((visibility("default")))

/// In front of a function that runs at start-up or when something fails: out of the way of the
/// rest, and compiled quickly. In front of one whose time goes into calls and waits, not into loops
/// of its own: compiled quickly as well. There are many of them; at GCC's -O2 they would cost a
/// program a tenth of its compile time.
#if defined(__clang__)
#define HVDLITE_COLD __attribute__((cold, noinline))
#define HVDLITE_LEAN
#else
#define HVDLITE_COLD __attribute__((cold, noinline, optimize("O0")))
#define HVDLITE_LEAN __attribute__((optimize("O1")))
#endif

/// In front of a function that is large, and called in several places; or would become a part of
/// main(), which GCC takes for cold: copying a few words takes 10 ns there.
#define HVDLITE_OUT_OF_LINE __attribute__((noinline))

/// In front of a loop whose iterations do not meet each other's memory, though the compiler cannot
/// know. GCC vectorises it then; Clang finds out at run time.
#if defined(__clang__)
#define HVDLITE_INDEPENDENT
#else
#define HVDLITE_INDEPENDENT _Pragma("GCC ivdep")
#endif

/// In front of a function whose products and sums must not be fused: a*b+c has the same bits
/// whatever -march says. GCC takes the attribute, Clang the pragma at the start of the body.
#if defined(__clang__)
#define HVDLITE_STRICT_FP __attribute__((noinline))
#define HVDLITE_STRICT_FP_BODY _Pragma("clang fp contract(off)")
#else
#define HVDLITE_STRICT_FP __attribute__((noinline, optimize("fp-contract=off")))
#define HVDLITE_STRICT_FP_BODY
#endif

#endif  // C++20 with exceptions
