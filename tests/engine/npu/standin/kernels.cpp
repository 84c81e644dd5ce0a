// Stand-in for libopapi: the aclnn calls that the wheel makes for the engine's ops, each as ATen on the CPU.
//
// A call comes in two parts, as in CANN: ...GetWorkspaceSize reads the arguments and leaves an executor, the other enqueues
// it. Nothing is computed before its turn on the stream. Arguments that CANN's documentation rules out are refused.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include "standin.h"

using at::Tensor;

struct aclTensor {
  std::vector<int64_t> sizes, strides;
  int64_t offset;
  aclDataType type;
  void* data;
};
struct aclScalar {
  at::Scalar value;
};
struct aclIntArray {
  std::vector<int64_t> values;
};
struct aclBoolArray {
  std::vector<bool> values;
};
struct aclTensorList {
  std::vector<const aclTensor*> tensors;
};
struct aclOpExecutor {
  std::function<void()> kernel;
};

namespace {

at::ScalarType torch_type(aclDataType type) {
  switch (type) {
    case ACL_FLOAT: return at::kFloat;
    case ACL_FLOAT16: return at::kHalf;
    case ACL_BF16: return at::kBFloat16;
    case ACL_DOUBLE: return at::kDouble;
    case ACL_INT8: return at::kChar;
    case ACL_UINT8: return at::kByte;
    case ACL_INT16: return at::kShort;
    case ACL_INT32: return at::kInt;
    case ACL_INT64: return at::kLong;
    case ACL_BOOL: return at::kBool;
    default: TORCH_CHECK(false, "the stand-in knows no data type ", static_cast<int>(type));
  }
}

// The tensor itself, not a copy; undefined where an optional one is left out.
Tensor T(const aclTensor* tensor) {
  if (tensor == nullptr) {
    return {};
  }
  const auto options = at::TensorOptions().dtype(torch_type(tensor->type));
  char* first = static_cast<char*>(tensor->data) + tensor->offset * static_cast<int64_t>(options.dtype().itemsize());
  return at::from_blob(first, tensor->sizes, tensor->strides, options);
}

std::vector<Tensor> T(const aclTensorList* list) {
  std::vector<Tensor> tensors;
  for (const aclTensor* tensor : list->tensors) {
    tensors.push_back(T(tensor));
  }
  return tensors;
}

std::optional<std::vector<int64_t>> L(const aclIntArray* array) {
  return array == nullptr ? std::nullopt : std::make_optional(array->values);
}

at::Scalar S(const aclScalar* scalar) { return scalar->value; }

// Keep what the call will do. The kernel owns copies of all its arguments.
template <class Kernel>
int ready(uint64_t* workspace, aclOpExecutor** executor, Kernel kernel) {
  *workspace = 0;
  *executor = new aclOpExecutor{[kernel]() mutable {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    at::set_num_threads(1);
    kernel();
  }};
  return ACL_SUCCESS;
}

template <class Prepare>
int guarded(const char* name, Prepare prepare) {
  try {
    return prepare();
  } catch (const std::exception& error) {
    standin::complain(std::string(name) + ": " + error.what());
    return ACL_ERROR_INVALID_PARAM;
  }
}

int enqueue(const char* name, aclOpExecutor* executor, aclrtStream stream) {
  std::unique_ptr<aclOpExecutor> owned(executor);
  return standin::launch(stream, name, std::move(owned->kernel));
}

void put(Tensor& out, const Tensor& value) { out.copy_(value); }

// --- attention of rows and blocks over pages ---------------------------------------------------------------------------

struct Attention {
  Tensor query, key, value, table, out;
  std::optional<std::vector<int64_t>> query_ends, lengths;
  std::string layout;
  int64_t heads, kv_heads, block_size;
  double scale;

  void check() const {
    TORCH_CHECK(layout == "BSH" || layout == "TND", "the stand-in takes BSH and TND, not ", layout);
    TORCH_CHECK(query.scalar_type() == at::kHalf || query.scalar_type() == at::kBFloat16, "takes float16 or bfloat16");
    TORCH_CHECK(table.defined() && table.scalar_type() == at::kInt && table.is_contiguous(), "block_table is int32");
    TORCH_CHECK(lengths.has_value(), "actual_seq_lengths_kv is a host list");
    TORCH_CHECK(query.is_contiguous() && key.is_contiguous() && value.is_contiguous(), "takes contiguous tensors");
    TORCH_CHECK(static_cast<int64_t>(lengths->size()) == table.size(0), "one length a sequence");
    TORCH_CHECK(key.dim() == 3 && key.size(1) == block_size && key.size(2) % kv_heads == 0, "pages [blocks, size, H]");
    const bool tnd = layout == "TND";
    TORCH_CHECK(!tnd || (query_ends.has_value() && query_ends->size() == lengths->size()), "TND has an end a sequence");
    TORCH_CHECK(!tnd || query_ends->back() == query.size(0), "the last end is the number of rows");
    TORCH_CHECK(tnd || query.size(0) == table.size(0), "a sequence a table");
    const bool one_row = tnd ? query.size(0) == table.size(0) : query.size(1) == 1;
    TORCH_CHECK(block_size <= 512 && block_size % (one_row ? 16 : 128) == 0, "block_size ", block_size);
  }

  void operator()() {
    const bool tnd = layout == "TND";
    const int64_t size = tnd ? query.size(2) : query.size(2) / heads;
    const Tensor rows = query.reshape({-1, heads, size});
    Tensor results = at::empty_like(rows);
    int64_t first = 0;
    for (int64_t b = 0; b < table.size(0); ++b) {
      const int64_t end = tnd ? (*query_ends)[b] : (b + 1) * query.size(1);
      const int64_t length = (*lengths)[b];
      const int64_t pages = (length + block_size - 1) / block_size;
      TORCH_CHECK(pages >= 1 && pages <= table.size(1), "the table is shorter than the keys that are asked for");
      const Tensor blocks = table[b].slice(0, 0, pages).to(at::kLong);
      TORCH_CHECK(blocks.min().item<int64_t>() >= 0 && blocks.max().item<int64_t>() < key.size(0), "a block is not there");
      const auto gathered = [&](const Tensor& cache) {
        return cache.index_select(0, blocks).reshape({-1, kv_heads, size}).slice(0, 0, length)
            .repeat_interleave(heads / kv_heads, 1).transpose(0, 1).to(at::kFloat);
      };
      const Tensor q = rows.slice(0, first, end).transpose(0, 1).to(at::kFloat);
      const Tensor weights = at::matmul(q, gathered(key).transpose(1, 2)).mul(scale).softmax(-1);
      results.slice(0, first, end).copy_(at::matmul(weights, gathered(value)).transpose(0, 1));
      first = end;
    }
    put(out, results.reshape(out.sizes()));
  }
};

}  // namespace

extern "C" {

// --- arguments --------------------------------------------------------------------------------------------------------

aclTensor* aclCreateTensor(const int64_t* sizes, uint64_t dims, aclDataType type, const int64_t* strides, int64_t offset,
                           aclFormat, const int64_t*, uint64_t, void* data) {
  return new aclTensor{{sizes, sizes + dims}, {strides, strides + dims}, offset, type, data};
}

aclScalar* aclCreateScalar(void* value, aclDataType type) {
  return new aclScalar{at::from_blob(value, {}, at::TensorOptions().dtype(torch_type(type))).item()};
}

aclIntArray* aclCreateIntArray(const int64_t* values, uint64_t size) { return new aclIntArray{{values, values + size}}; }
aclBoolArray* aclCreateBoolArray(const bool* values, uint64_t size) { return new aclBoolArray{{values, values + size}}; }
aclTensorList* aclCreateTensorList(const aclTensor* const* tensors, uint64_t size) {
  return new aclTensorList{{tensors, tensors + size}};
}

int aclDestroyTensor(const aclTensor* tensor) {
  delete tensor;
  return ACL_SUCCESS;
}
int aclDestroyScalar(const aclScalar* scalar) {
  delete scalar;
  return ACL_SUCCESS;
}
int aclDestroyIntArray(const aclIntArray* array) {
  delete array;
  return ACL_SUCCESS;
}
int aclDestroyBoolArray(const aclBoolArray* array) {
  delete array;
  return ACL_SUCCESS;
}
int aclDestroyTensorList(const aclTensorList* list) {
  for (const aclTensor* tensor : list->tensors) {
    delete tensor;
  }
  delete list;
  return ACL_SUCCESS;
}

int aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  delete executor;
  return ACL_SUCCESS;
}

// One aclnn call: its second part, and the head and the guard of its first, whose kernel follows in braces.
#define ACLNN(name, ...)                                                                                    \
  int name(void*, uint64_t, aclOpExecutor* executor, aclrtStream stream) { return enqueue(#name, executor, stream); } \
  int name##GetWorkspaceSize(__VA_ARGS__, uint64_t* workspace, aclOpExecutor** executor)
#define KERNEL(...) guarded(__func__, [&] { return ready(workspace, executor, __VA_ARGS__); })

#define UNARY(name, expression)                                                    \
  ACLNN(name, const aclTensor* self, aclTensor* out) {                             \
    return KERNEL([a = T(self), o = T(out)]() mutable { put(o, expression); });    \
  }
#define BINARY(name, expression)                                                               \
  ACLNN(name, const aclTensor* self, const aclTensor* other, aclTensor* out) {                 \
    return KERNEL([a = T(self), b = T(other), o = T(out)]() mutable { put(o, expression); });  \
  }
#define WITH_SCALAR(name, expression)                                                          \
  ACLNN(name, const aclTensor* self, const aclScalar* other, aclTensor* out) {                 \
    return KERNEL([a = T(self), b = S(other), o = T(out)]() mutable { put(o, expression); });  \
  }

#define INPLACE(name, expression)                                                 \
  ACLNN(name, aclTensor* self, const aclTensor* other) {                           \
    return KERNEL([o = T(self), b = T(other)]() mutable { put(o, expression); });  \
  }
#define INPLACE_SCALAR(name, expression)                                          \
  ACLNN(name, aclTensor* self, const aclScalar* other) {                           \
    return KERNEL([o = T(self), b = S(other)]() mutable { put(o, expression); });  \
  }

// --- filling, copying, converting -------------------------------------------------------------------------------------

ACLNN(aclnnInplaceCopy, aclTensor* self, const aclTensor* from) {
  return KERNEL([o = T(self), a = T(from)]() mutable { put(o, a); });
}
ACLNN(aclnnCast, const aclTensor* self, aclDataType, aclTensor* out) {
  return KERNEL([a = T(self), o = T(out)]() mutable { put(o, a); });
}
ACLNN(aclnnInplaceZero, aclTensor* self) {
  return KERNEL([o = T(self)]() mutable { o.zero_(); });
}
ACLNN(aclnnInplaceOne, aclTensor* self) {
  return KERNEL([o = T(self)]() mutable { o.fill_(1); });
}
ACLNN(aclnnInplaceFillScalar, aclTensor* self, const aclScalar* value) {
  return KERNEL([o = T(self), v = S(value)]() mutable { o.fill_(v); });
}
ACLNN(aclnnInplaceFillTensor, aclTensor* self, const aclTensor* value) {
  return KERNEL([o = T(self), v = T(value)]() mutable { o.fill_(v); });
}
ACLNN(aclnnArange, const aclScalar* start, const aclScalar* end, const aclScalar* step, aclTensor* out) {
  return KERNEL([s = S(start), e = S(end), d = S(step), o = T(out)]() mutable { put(o, at::arange(s, e, d, o.options())); });
}

// --- arithmetic -------------------------------------------------------------------------------------------------------

ACLNN(aclnnAdd, const aclTensor* self, const aclTensor* other, const aclScalar* alpha, aclTensor* out) {
  return KERNEL([a = T(self), b = T(other), k = S(alpha), o = T(out)]() mutable { put(o, at::add(a, b, k)); });
}
ACLNN(aclnnAdds, const aclTensor* self, const aclScalar* other, const aclScalar* alpha, aclTensor* out) {
  return KERNEL([a = T(self), b = S(other), k = S(alpha), o = T(out)]() mutable { put(o, at::add(a, b, k)); });
}
ACLNN(aclnnInplaceAdd, aclTensor* self, const aclTensor* other, const aclScalar* alpha) {
  return KERNEL([o = T(self), b = T(other), k = S(alpha)]() mutable { o.add_(b, k); });
}
ACLNN(aclnnInplaceAdds, aclTensor* self, const aclScalar* other, const aclScalar* alpha) {
  return KERNEL([o = T(self), b = S(other), k = S(alpha)]() mutable { o.add_(b, k); });
}
ACLNN(aclnnSub, const aclTensor* self, const aclTensor* other, const aclScalar* alpha, aclTensor* out) {
  return KERNEL([a = T(self), b = T(other), k = S(alpha), o = T(out)]() mutable { put(o, at::sub(a, b, k)); });
}
ACLNN(aclnnSubs, const aclTensor* self, const aclScalar* other, const aclScalar* alpha, aclTensor* out) {
  return KERNEL([a = T(self), b = S(other), k = S(alpha), o = T(out)]() mutable { put(o, at::sub(a, b, k)); });
}
ACLNN(aclnnRsubs, const aclTensor* self, const aclScalar* other, const aclScalar* alpha, aclTensor* out) {
  return KERNEL([a = T(self), b = S(other), k = S(alpha), o = T(out)]() mutable { put(o, at::rsub(a, b, k)); });
}
BINARY(aclnnMul, at::mul(a, b))
WITH_SCALAR(aclnnMuls, at::mul(a, b))
INPLACE(aclnnInplaceMul, at::mul(o, b))
INPLACE_SCALAR(aclnnInplaceMuls, at::mul(o, b))
BINARY(aclnnDiv, at::div(a, b))
WITH_SCALAR(aclnnDivs, at::div(a, b))
BINARY(aclnnMinimum, at::minimum(a, b))
BINARY(aclnnMaximum, at::maximum(a, b))
UNARY(aclnnNeg, at::neg(a))
UNARY(aclnnExp, at::exp(a))
UNARY(aclnnLog, at::log(a))
UNARY(aclnnCos, at::cos(a))
UNARY(aclnnSin, at::sin(a))
UNARY(aclnnRsqrt, at::rsqrt(a))
UNARY(aclnnReciprocal, at::reciprocal(a))
UNARY(aclnnSigmoid, at::sigmoid(a))
UNARY(aclnnSilu, at::silu(a))
UNARY(aclnnTanh, at::tanh(a))
WITH_SCALAR(aclnnPowTensorScalar, at::pow(a, b))
ACLNN(aclnnPowScalarTensor, const aclScalar* self, const aclTensor* exponent, aclTensor* out) {
  return KERNEL([a = S(self), b = T(exponent), o = T(out)]() mutable { put(o, at::pow(a, b)); });
}
WITH_SCALAR(aclnnClampMin, at::clamp_min(a, b))
WITH_SCALAR(aclnnClampMax, at::clamp_max(a, b))
ACLNN(aclnnClamp, const aclTensor* self, const aclScalar* least, const aclScalar* most, aclTensor* out) {
  const auto optional = [](const aclScalar* one) { return one == nullptr ? std::nullopt : std::make_optional(S(one)); };
  return KERNEL([a = T(self), l = optional(least), m = optional(most), o = T(out)]() mutable { put(o, at::clamp(a, l, m)); });
}

// --- comparing --------------------------------------------------------------------------------------------------------

BINARY(aclnnEqTensor, at::eq(a, b))
WITH_SCALAR(aclnnEqScalar, at::eq(a, b))
BINARY(aclnnNeTensor, at::ne(a, b))
WITH_SCALAR(aclnnNeScalar, at::ne(a, b))
BINARY(aclnnLtTensor, at::lt(a, b))
WITH_SCALAR(aclnnLtScalar, at::lt(a, b))
BINARY(aclnnLeTensor, at::le(a, b))
WITH_SCALAR(aclnnLeScalar, at::le(a, b))
BINARY(aclnnGtTensor, at::gt(a, b))
WITH_SCALAR(aclnnGtScalar, at::gt(a, b))
BINARY(aclnnGeTensor, at::ge(a, b))
WITH_SCALAR(aclnnGeScalar, at::ge(a, b))
BINARY(aclnnLogicalAnd, at::logical_and(a, b))
BINARY(aclnnLogicalOr, at::logical_or(a, b))
UNARY(aclnnLogicalNot, at::logical_not(a))
BINARY(aclnnBitwiseAndTensor, at::bitwise_and(a, b))
WITH_SCALAR(aclnnBitwiseAndScalar, at::bitwise_and(a, b))
BINARY(aclnnBitwiseOrTensor, at::bitwise_or(a, b))
BINARY(aclnnBitwiseXorTensor, at::bitwise_xor(a, b))
BINARY(aclnnRightShift, at::bitwise_right_shift(a, b))
UNARY(aclnnBitwiseNot, at::bitwise_not(a))
INPLACE(aclnnInplaceBitwiseAndTensor, at::bitwise_and(o, b))
INPLACE(aclnnInplaceLogicalAnd, at::logical_and(o, b))
INPLACE_SCALAR(aclnnInplaceBitwiseAndScalar, at::bitwise_and(o, b))
WITH_SCALAR(aclnnBitwiseOrScalar, at::bitwise_or(a, b))
WITH_SCALAR(aclnnBitwiseXorScalar, at::bitwise_xor(a, b))
UNARY(aclnnIsFinite, at::isfinite(a))
UNARY(aclnnAbs, at::abs(a))
ACLNN(aclnnSWhere, const aclTensor* condition, const aclTensor* self, const aclTensor* other, aclTensor* out) {
  return KERNEL([c = T(condition), a = T(self), b = T(other), o = T(out)]() mutable { put(o, at::where(c, a, b)); });
}
ACLNN(aclnnInplaceMaskedFillScalar, aclTensor* self, const aclTensor* mask, const aclScalar* value) {
  return KERNEL([o = T(self), m = T(mask), v = S(value)]() mutable { o.masked_fill_(m, v); });
}

// --- reducing, ordering -----------------------------------------------------------------------------------------------

ACLNN(aclnnAll, const aclTensor* self, const aclIntArray* dims, bool keep, aclTensor* out) {
  return KERNEL([a = T(self), d = *L(dims), keep, o = T(out)]() mutable { put(o, at::all(a, at::OptionalIntArrayRef(d), keep)); });
}
ACLNN(aclnnReduceSum, const aclTensor* self, const aclIntArray* dims, bool keep, aclDataType type, aclTensor* out) {
  return KERNEL([a = T(self), d = *L(dims), keep, t = torch_type(type), o = T(out)]() mutable { put(o, at::sum(a, d, keep, t)); });
}
ACLNN(aclnnMean, const aclTensor* self, const aclIntArray* dims, bool keep, aclDataType type, aclTensor* out) {
  return KERNEL([a = T(self), d = *L(dims), keep, t = torch_type(type), o = T(out)]() mutable { put(o, at::mean(a, d, keep, t)); });
}
ACLNN(aclnnAmax, const aclTensor* self, const aclIntArray* dims, bool keep, aclTensor* out) {
  return KERNEL([a = T(self), d = *L(dims), keep, o = T(out)]() mutable { put(o, at::amax(a, d, keep)); });
}
ACLNN(aclnnArgMax, const aclTensor* self, int64_t dim, bool keep, aclTensor* out) {
  return KERNEL([a = T(self), dim, keep, o = T(out)]() mutable { put(o, at::argmax(a, dim, keep)); });
}
ACLNN(aclnnMaxDim, const aclTensor* self, int64_t dim, bool keep, aclTensor* out, aclTensor* places) {
  return KERNEL([a = T(self), dim, keep, o = T(out), p = T(places)]() mutable {
    const auto found = at::max(a, dim, keep);
    put(o, std::get<0>(found));
    put(p, std::get<1>(found));
  });
}
ACLNN(aclnnSoftmax, const aclTensor* self, int64_t dim, aclTensor* out) {
  return KERNEL([a = T(self), dim, o = T(out)]() mutable { put(o, at::softmax(a, dim)); });
}
ACLNN(aclnnLogSoftmax, const aclTensor* self, int64_t dim, aclTensor* out) {
  return KERNEL([a = T(self), dim, o = T(out)]() mutable { put(o, at::log_softmax(a, dim)); });
}
ACLNN(aclnnCumsum, const aclTensor* self, int64_t dim, aclDataType type, aclTensor* out) {
  return KERNEL([a = T(self), dim, t = torch_type(type), o = T(out)]() mutable { put(o, at::cumsum(a, dim, t)); });
}
ACLNN(aclnnCumprod, const aclTensor* self, const aclScalar* dim, aclDataType type, aclTensor* out) {
  return KERNEL([a = T(self), d = S(dim).toLong(), t = torch_type(type), o = T(out)]() mutable { put(o, at::cumprod(a, d, t)); });
}
ACLNN(aclnnSort, const aclTensor* self, bool stable, int64_t dim, bool down, aclTensor* values, aclTensor* places) {
  return KERNEL([a = T(self), stable, dim, down, v = T(values), p = T(places)]() mutable {
    const auto sorted = at::sort(a, stable, dim, down);
    put(v, std::get<0>(sorted));
    put(p, std::get<1>(sorted));
  });
}
ACLNN(aclnnTopk, const aclTensor* self, int64_t k, int64_t dim, bool largest, bool sorted, aclTensor* values,
      aclTensor* places) {
  return KERNEL([a = T(self), k, dim, largest, sorted, v = T(values), p = T(places)]() mutable {
    const auto found = at::topk(a, k, dim, largest, sorted);
    put(v, std::get<0>(found));
    put(p, std::get<1>(found));
  });
}
ACLNN(aclnnSearchSorted, const aclTensor* sorted, const aclTensor* self, bool narrow, bool right, const aclTensor* sorter,
      aclTensor* out) {
  return KERNEL([s = T(sorted), a = T(self), narrow, right, order = T(sorter), o = T(out)]() mutable {
    put(o, at::searchsorted(s, a, narrow, right, std::nullopt, order.defined() ? std::make_optional(order) : std::nullopt));
  });
}

// --- moving -----------------------------------------------------------------------------------------------------------

ACLNN(aclnnGather, const aclTensor* self, int64_t dim, const aclTensor* index, aclTensor* out) {
  return KERNEL([a = T(self), dim, i = T(index), o = T(out)]() mutable { put(o, at::gather(a, dim, i.to(at::kLong))); });
}
ACLNN(aclnnScatter, const aclTensor* self, int64_t dim, const aclTensor* index, const aclTensor* from, int64_t reduction,
      aclTensor* out) {
  return KERNEL([a = T(self), dim, i = T(index), b = T(from), reduction, o = T(out)]() mutable {
    TORCH_CHECK(reduction == 0, "scatter only replaces here");
    put(o, at::scatter(a, dim, i.to(at::kLong), b));
  });
}
ACLNN(aclnnScatterValue, const aclTensor* self, int64_t dim, const aclTensor* index, const aclScalar* value,
      int64_t reduction, aclTensor* out) {
  return KERNEL([a = T(self), dim, i = T(index), v = S(value), reduction, o = T(out)]() mutable {
    TORCH_CHECK(reduction == 0, "scatter only replaces here");
    put(o, at::scatter(a, dim, i.to(at::kLong), v));
  });
}
ACLNN(aclnnIndexSelect, const aclTensor* self, int64_t dim, const aclTensor* index, aclTensor* out) {
  return KERNEL([a = T(self), dim, i = T(index), o = T(out)]() mutable { put(o, at::index_select(a, dim, i)); });
}
ACLNN(aclnnInplaceIndexCopy, aclTensor* self, int64_t dim, const aclTensor* index, const aclTensor* from) {
  return KERNEL([o = T(self), dim, i = T(index), b = T(from)]() mutable { o.index_copy_(dim, i.to(at::kLong), b); });
}
ACLNN(aclnnEmbedding, const aclTensor* weight, const aclTensor* index, aclTensor* out) {
  return KERNEL([w = T(weight), i = T(index), o = T(out)]() mutable { put(o, at::embedding(w, i)); });
}
ACLNN(aclnnIndex, const aclTensor* self, const aclTensorList* indices, aclTensor* out) {
  return KERNEL([a = T(self), all = T(indices), o = T(out)]() mutable {
    c10::List<std::optional<Tensor>> list;
    for (const Tensor& one : all) {
      // the wheel fills the place of a dimension that is not indexed with an empty tensor
      list.push_back(one.defined() && one.numel() > 0 ? std::make_optional(one) : std::nullopt);
    }
    put(o, at::index(a, list));
  });
}
ACLNN(aclnnTriu, const aclTensor* self, int64_t diagonal, aclTensor* out) {
  return KERNEL([a = T(self), diagonal, o = T(out)]() mutable { put(o, at::triu(a, diagonal)); });
}
ACLNN(aclnnCat, const aclTensorList* tensors, int64_t dim, aclTensor* out) {
  return KERNEL([all = T(tensors), dim, o = T(out)]() mutable { put(o, at::cat(all, dim)); });
}
ACLNN(aclnnStack, const aclTensorList* tensors, int64_t dim, aclTensor* out) {
  return KERNEL([all = T(tensors), dim, o = T(out)]() mutable { put(o, at::stack(all, dim)); });
}
ACLNN(aclnnConstantPadNd, const aclTensor* self, const aclIntArray* pad, const aclScalar* value, aclTensor* out) {
  return KERNEL([a = T(self), p = *L(pad), v = S(value), o = T(out)]() mutable { put(o, at::constant_pad_nd(a, p, v)); });
}
ACLNN(aclnnRepeatInterleaveIntWithDim, const aclTensor* self, int64_t times, int64_t dim, int64_t, aclTensor* out) {
  return KERNEL([a = T(self), times, dim, o = T(out)]() mutable { put(o, at::repeat_interleave(a, times, dim)); });
}
ACLNN(aclnnRepeatInterleaveInt, const aclTensor* self, int64_t times, int64_t, aclTensor* out) {
  return KERNEL([a = T(self), times, o = T(out)]() mutable { put(o, at::repeat_interleave(a, times)); });
}
ACLNN(aclnnOneHot, const aclTensor* self, int64_t depth, const aclTensor* on, const aclTensor* off, int64_t axis,
      aclTensor* out) {
  return KERNEL([a = T(self), depth, on = T(on), off = T(off), axis, o = T(out)]() mutable {
    TORCH_CHECK(axis == -1, "one-hot along the last dimension");
    put(o, at::where(at::one_hot(a.to(at::kLong), depth).to(at::kBool), on, off));
  });
}

// --- multiplying matrices ---------------------------------------------------------------------------------------------

ACLNN(aclnnMatmul, const aclTensor* self, const aclTensor* other, aclTensor* out, int8_t) {
  return KERNEL([a = T(self), b = T(other), o = T(out)]() mutable { put(o, at::matmul(a, b)); });
}
ACLNN(aclnnMm, const aclTensor* self, const aclTensor* other, aclTensor* out, int8_t) {
  return KERNEL([a = T(self), b = T(other), o = T(out)]() mutable { put(o, at::mm(a, b)); });
}
ACLNN(aclnnBatchMatMul, const aclTensor* self, const aclTensor* other, aclTensor* out, int8_t) {
  return KERNEL([a = T(self), b = T(other), o = T(out)]() mutable { put(o, at::bmm(a, b)); });
}
ACLNN(aclnnAddmm, const aclTensor* self, const aclTensor* left, const aclTensor* right, const aclScalar* beta,
      const aclScalar* alpha, aclTensor* out, int8_t) {
  return KERNEL([a = T(self), l = T(left), r = T(right), b = S(beta), k = S(alpha), o = T(out)]() mutable {
    put(o, at::addmm(a, l, r, b, k));
  });
}

// --- the NPU's own ----------------------------------------------------------------------------------------------------

ACLNN(aclnnRmsNorm, const aclTensor* self, const aclTensor* gamma, double epsilon, aclTensor* out, aclTensor* scales) {
  return KERNEL([a = T(self), g = T(gamma), epsilon, o = T(out), r = T(scales)]() mutable {
    TORCH_CHECK(a.scalar_type() == g.scalar_type(), "gamma has the dtype of its input");
    const Tensor wide = a.to(at::kFloat);
    const Tensor reciprocal = at::rsqrt(wide.square().mean({-1}, true) + epsilon);
    put(o, wide * reciprocal * g);
    put(r, reciprocal);
  });
}

ACLNN(aclnnRotaryPositionEmbedding, const aclTensor* self, const aclTensor* cos, const aclTensor* sin, int64_t mode,
      aclTensor* out) {
  return KERNEL([a = T(self), c = T(cos), s = T(sin), mode, o = T(out)]() mutable {
    TORCH_CHECK(mode == 0, "rotary by halves");
    TORCH_CHECK(a.dim() == 4 && c.sizes() == s.sizes() && c.size(1) == a.size(1) && c.size(3) == a.size(3), "BSND");
    TORCH_CHECK(a.size(2) < 1000 && a.size(3) < 896 && a.size(3) % 2 == 0, "heads and their size");
    const auto halves = a.chunk(2, -1);
    put(o, a * c + at::cat({-halves[1], halves[0]}, -1) * s);
  });
}

ACLNN(aclnnScatterPaKvCache, const aclTensor* key, aclTensor* key_cache, const aclTensor* slots, const aclTensor* value,
      aclTensor* value_cache, const aclTensor*, const aclTensor*, const aclTensor*, char* mode, char*, const aclIntArray*,
      const aclIntArray*) {
  const std::string layout = mode == nullptr ? "" : mode;
  return KERNEL([layout, k = T(key), v = T(value), kc = T(key_cache), vc = T(value_cache), s = T(slots)]() mutable {
    TORCH_CHECK(layout == "Norm", "cache_mode Norm, not ", layout);
    const Tensor places = s.to(at::kLong);
    TORCH_CHECK(std::get<0>(at::_unique(places)).numel() == places.numel(), "an index is written twice: ", places);
    for (auto& [from, to] : {std::pair(k, kc), std::pair(v, vc)}) {
      TORCH_CHECK(from.is_contiguous() && to.is_contiguous() && from.scalar_type() == to.scalar_type(), "contiguous");
      to.view({-1, to.size(2), to.size(3)}).index_copy_(0, places, from);
    }
  });
}

// Prompts: scaled_dot_product_attention, in BNSD.
ACLNN(aclnnFlashAttentionScore, const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* shift,
      const aclTensor* drop, const aclTensor*, const aclTensor* mask, const aclIntArray*, double scale, double keep, int64_t,
      int64_t, int64_t, char* layout, int64_t, int64_t sparse, aclTensor*, aclTensor*, aclTensor*, aclTensor* out) {
  const std::string order = layout;
  const bool causal = sparse == 2;  // then the mask is the whole triangle of the largest prompt it compresses
  return KERNEL([=, masked = mask != nullptr, q = T(query), k = T(key), v = T(value), s = T(shift), d = T(drop), o = T(out)]() mutable {
    TORCH_CHECK(order == "BNSD" && causal == masked && !s.defined() && !d.defined() && keep == 1.0, "flash attention of prompts only");
    const int64_t group = q.size(1) / k.size(1);
    Tensor scores = at::matmul(q.to(at::kFloat), k.repeat_interleave(group, 1).to(at::kFloat).transpose(2, 3)) * scale;
    if (causal) {
      scores = scores.masked_fill(at::ones_like(scores[0][0], at::kBool).triu(1), -INFINITY);
    }
    put(o, at::matmul(scores.softmax(-1), v.repeat_interleave(group, 1).to(at::kFloat)));
  });
}

#define FUSED_ATTENTION                                                                                                    \
  const aclTensor *query, const aclTensorList *keys, const aclTensorList *values, const aclTensor *shift,                  \
      const aclTensor *mask, const aclIntArray *query_ends, const aclIntArray *lengths, const aclTensor *, const aclTensor *, \
      const aclTensor *, const aclTensor *, const aclTensor *, const aclTensor *, const aclTensor *,                       \
      const aclTensor *table, const aclTensor *, const aclTensor *, const aclTensor *, const aclTensor *,                  \
      const aclTensor *, const aclTensor *, const aclTensor *, const aclTensor *, const aclIntArray *, const aclTensor *,  \
      const aclTensor *, const aclTensor *, int64_t heads, double scale, int64_t, int64_t, char *layout, int64_t kv_heads, \
      int64_t sparse, int64_t, int64_t block_size, int64_t, bool, int64_t, int64_t, aclTensor *out, aclTensor *

ACLNN(aclnnFusedInferAttentionScoreV3, FUSED_ATTENTION) {
  return guarded(__func__, [&] {
    TORCH_CHECK(shift == nullptr && mask == nullptr && sparse == 0, "no mask here: every row sees all of its keys");
    Attention attention{T(query),      T(keys).at(0), T(values).at(0), T(table), T(out),     L(query_ends),
                        L(lengths),    layout,        heads,           kv_heads, block_size, scale};
    attention.check();
    return ready(workspace, executor, attention);
  });
}

int aclnnFusedInferAttentionScoreV3GetMaxWorkspaceSize(FUSED_ATTENTION, uint64_t* workspace, aclOpExecutor** executor) {
  *workspace = 64;
  *executor = nullptr;
  return ACL_SUCCESS;
}

}  // extern "C"
