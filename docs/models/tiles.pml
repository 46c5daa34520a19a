/* Tiles: who joins a kernel, and when its leader may leave. Code: omp_runtime/schedule/tiles.cpp; README.md maps the
   steps.

   The scene: a caller leads two kernels from the same place, the first with the scratch of thread 0, the second with
   that of thread 1. Both threads try to help all the time. A relaxed load may see an old value: helpers decide freely
   where the code reads one. */

#define TILES 2
#define KERNELS 2
#define THREADS 2

/* TileSharing::Kernel. The word holds generation, closed bit, joiners. */
byte word = 8, worker = 255, arg, next_tile;
#define CLOSED 8
#define JOINERS 7
#define GENERATION 16

byte leading; /* the kernel whose leader is inside; 0: none */
byte runs[TILES + 1];
byte inside; /* tiles that are being run */
byte helpers = THREADS;

inline take_tiles(me, mine) {
  do
  :: atomic { tile = next_tile; next_tile++ }
    if
    :: tile >= TILES -> break
    :: else
    fi;
    atomic {
      assert(leading == mine && arg == mine);
      inside++;
      runs[tile]++;
      assert(runs[tile] == 1)
    }
    atomic { assert(leading == mine && arg == mine); inside-- }
    if
    :: helps -> break /* critical work waits */
    :: true
    fi
  od;
  tile = 0
}

active proctype Caller() {
  byte kernel, tile;
  bool helps;
  for (kernel : 1 .. KERNELS) {
    /* open */
    assert(word & CLOSED);
    d_step { leading = kernel; runs[0] = 0; runs[1] = 0 }
    worker = kernel - 1;
    arg = kernel;
    next_tile = 0;
#ifdef MUTANT_SAME_GENERATION
    word = word & JOINERS;
#else
    word = (word / GENERATION + 1) * GENERATION;
#endif
    take_tiles(255, kernel);
    /* close */
    word = word | CLOSED;
#ifndef MUTANT_LEADER_LEAVES
    (word & JOINERS) == 0;
#endif
    d_step {
      assert(runs[0] == 1 && runs[1] == 1 && inside == 0);
      leading = 0
    }
  }
  helpers == 0;
  assert((word & JOINERS) == 0)
}

proctype Helper(byte me) {
  byte seen, tile, mine, turn;
  bool helps = true;
  for (turn : 1 .. 2) {
    seen = word;
    if
#ifdef MUTANT_WORKER_NOT_ASKED
    :: (seen & CLOSED) == 0 ->
#else
    :: (seen & CLOSED) == 0 && worker != me ->
#endif
      atomic {
        if
#ifdef MUTANT_JOIN_WITHOUT_COMPARING
        :: true ->
#else
        :: word == seen ->
#endif
          assert(leading > 0 && worker != me);
          word++;
          mine = leading
        :: else
        fi;
        seen = 0
      }
      if
      :: mine > 0 -> take_tiles(me, mine); word--; mine = 0
      :: else
      fi
    :: else -> seen = 0
    fi
  }
  helpers--
}

init {
  atomic { run Helper(0); run Helper(1) }
}
