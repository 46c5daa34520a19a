// Random programs of nested If and Loop, with lengths that change on the way, against an interpreter of ten lines.
#include <doctest/doctest.h>

#include <functional>
#include <random>

#include "graph.h"

using namespace ompipe::exec;
using namespace ompipe::exec::testing;
using ompipe::model::DType;
using ompipe::model::kNone;
using ompipe::model::ValueId;

namespace {

using Floats = std::vector<float>;
using Block = std::vector<std::function<void()>>;

// A value of the graph, and what the interpreter has for it.
struct Term {
  ValueId id;
  std::shared_ptr<Floats> now;
};

std::string text(const Floats& floats) {
  std::string text;
  for (const float element : floats) text += std::to_string(element) + " ";
  return text;
}

void play(const Block& block) {
  for (const auto& step : block) step();
}

class Program {
 public:
  explicit Program(uint64_t seed) : random_(seed) {
    for (int i = 0; i < 3; ++i) {
      flags_.push_back(below(2) == 1);
      flag_ids_.push_back(graph.input("c" + std::to_string(i), DType::boolean, {}));
      inputs_.push_back(feed_bool("c" + std::to_string(i), flags_.back()));
    }
    trips_ = int64_t(below(4));
    trips_id_ = graph.input("m", DType::i64, {});
    inputs_.push_back(feed<int64_t>("m", {}, {trips_}));
    std::vector<Term> terms;
    for (int i = 0; i < 2; ++i) {
      const std::string name = "x" + std::to_string(i);
      const Floats given(1 + below(3), float(below(9)));
      terms.push_back({graph.input(name, DType::f32, {int64_t(given.size())}), std::make_shared<Floats>(given)});
      inputs_.push_back(feed<float>(name, {int64_t(given.size())}, given));
    }
    const std::vector<Term> results = body(terms, 3, 2, main_);
    for (size_t i = 0; i < results.size(); ++i) {
      graph.output("y" + std::to_string(i), results[i].id);
      results_.push_back(results[i].now);
    }
  }

  void check(const RuntimeContext& context) {
    play(main_);
    for (size_t i = 0; i < results_.size(); ++i) {
      CAPTURE(i);
      const Floats found = elements_of<float>(*context.output("y" + std::to_string(i)));
      CHECK_MESSAGE(found == *results_[i], text(found), " instead of ", text(*results_[i]));
    }
  }
  const std::vector<NamedTensor>& inputs() const { return inputs_; }

  Graph graph;

 private:
  size_t below(size_t end) { return random_() % end; }
  const Term& any(const std::vector<Term>& terms) { return terms[below(terms.size())]; }
  Term made(ValueId id) { return {id, std::make_shared<Floats>()}; }

  // Some steps from `terms`; so many of what is then there are the results.
  std::vector<Term> body(std::vector<Term> terms, int depth, size_t results, Block& block) {
    for (size_t steps = 1 + below(4); steps > 0; --steps) {
      const size_t what = below(depth > 0 ? 7 : 4);
      if (what >= 5) {
        for (const Term& term : loop(terms, depth - 1, block)) terms.push_back(term);
      } else if (what == 4) {
        for (const Term& term : choice(terms, depth - 1, block)) terms.push_back(term);
      } else {
        terms.push_back(simple(terms, what, block));
      }
    }
    std::vector<Term> chosen;
    while (chosen.size() < results) {
      Term term = any(terms);
      // Each result is its own value in the main graph.
      if (depth == 3) {
        const Term copy = made(graph.op("Neg", {term.id}));
        block.push_back([from = term.now, to = copy.now] {
          *to = *from;
          for (float& element : *to) element = -element;
        });
        term = copy;
      }
      chosen.push_back(term);
    }
    return chosen;
  }

  Term simple(const std::vector<Term>& terms, size_t what, Block& block) {
    const Term a = any(terms), b = any(terms);
    const auto bounded = [&](ValueId id) {
      return graph.op("Max",
                      {graph.op("Min", {id, graph.constant<float>({}, {500})}), graph.constant<float>({}, {-500})});
    };
    const auto sum = [](const Floats& from) {
      float total = 0;
      for (const float element : from) total += element;
      return std::min(500.0f, std::max(-500.0f, total));
    };
    if (what == 0) {
      const Term result = made(bounded(graph.op("Add", {a.id, graph.constant<float>({}, {3})})));
      block.push_back([=] {
        *result.now = *a.now;
        for (float& element : *result.now) element = std::max(-500.0f, std::min(500.0f, element + 3));
      });
      return result;
    }
    const ValueId total = bounded(graph.op("ReduceSum", {b.id}, {{"keepdims", int64_t(1)}}));
    const Term result = made(what == 1 ? total : graph.op("Concat", {a.id, total}, {{"axis", int64_t(0)}}));
    block.push_back([=] {
      const float last = sum(*b.now);
      Floats next;
      if (what != 1) next = *a.now;
      next.push_back(last);
      *result.now = next;
    });
    return result;
  }

  std::vector<Term> choice(const std::vector<Term>& terms, int depth, Block& block) {
    const size_t flag = below(flags_.size()), results = 1 + below(2);
    std::vector<Term> outputs;
    for (const ValueId id : graph.flow("If", {flag_ids_[flag]}, int(results))) outputs.push_back(made(id));
    for (const bool then : {true, false}) {
      graph.begin(then ? "then_branch" : "else_branch");
      Block inner;
      const std::vector<Term> given = body(terms, depth, results, inner);
      Ids ids;
      for (const Term& term : given) ids.push_back(term.id);
      graph.end(ids);
      if (flags_[flag] != then) continue;
      block.push_back([=] {
        play(inner);
        for (size_t i = 0; i < results; ++i) *outputs[i].now = *given[i].now;
      });
    }
    graph.close();
    return outputs;
  }

  // Two carried values; ends by its count, or by a condition on the pass.
  std::vector<Term> loop(const std::vector<Term>& terms, int depth, Block& block) {
    const bool constant = below(2) == 1;
    const auto most = constant ? int64_t(below(4)) : trips_;
    const auto last = int64_t(below(4));
    const bool conditional = below(2) == 1;
    const std::vector<Term> first{any(terms), any(terms)};
    const ValueId count = constant ? graph.constant<int64_t>({}, {most}) : trips_id_;
    const Ids outputs =
        graph.flow("Loop", {count, conditional ? graph.truth(true) : kNone, first[0].id, first[1].id}, 2);
    const Ids in = graph.begin("body", {DType::i64, DType::boolean, DType::f32, DType::f32});
    const std::vector<Term> carried{made(in[2]), made(in[3])};
    std::vector<Term> seen = terms;
    seen.insert(seen.end(), carried.begin(), carried.end());
    Block inner;
    const std::vector<Term> next = body(seen, depth, 2, inner);
    ValueId goes_on = in[1];
    if (conditional)
      goes_on = graph.op("Equal", {graph.op("Min", {in[0], graph.constant<int64_t>({}, {last})}), in[0]});
    graph.end({goes_on, next[0].id, next[1].id});
    graph.close();
    const std::vector<Term> results{made(outputs[0]), made(outputs[1])};
    block.push_back([=] {
      Floats now[] = {*first[0].now, *first[1].now};
      for (int64_t pass = 0; pass < most; ++pass) {
        for (size_t i = 0; i < 2; ++i) *carried[i].now = now[i];
        play(inner);
        for (size_t i = 0; i < 2; ++i) now[i] = *next[i].now;
        if (conditional && pass > last) break;
      }
      for (size_t i = 0; i < 2; ++i) *results[i].now = now[i];
    });
    return results;
  }

  std::mt19937_64 random_;
  std::vector<bool> flags_;
  Ids flag_ids_;
  int64_t trips_ = 0;
  ValueId trips_id_ = kNone;
  std::vector<NamedTensor> inputs_;
  Block main_;
  std::vector<std::shared_ptr<Floats>> results_;
};

}  // namespace

TEST_SUITE_BEGIN("flow");

TEST_CASE("random programs") {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    CAPTURE(seed);
    Program program(seed);
    const auto plan = program.graph.plan();
    const MemoryObjects objects = program.graph.prepare(*plan);
    Frame frame(plan, 2);
    for (int round = 0; round < 2; ++round) {
      RuntimeContext context;
      context.inputs = program.inputs();
      const ompipe::Status bound = frame.bind(context);
      REQUIRE_MESSAGE(bound.ok(), (bound.ok() ? "" : bound.error().message()));
      SerialTileRunner runner(seed, 2);
      const ompipe::Status status = run_bound(frame, *plan, context, objects, runner);
      REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message()));
      program.check(context);
    }
  }
}

TEST_SUITE_END();
