# What `cmake --install FOLDER --component kernels` installs: both libraries, the headers of C and C++, and what find_package(ompipe)
# and pkg-config read.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS ompipe_kernels ompipe_kernels_shared EXPORT ompipe
  ARCHIVE COMPONENT kernels LIBRARY COMPONENT kernels NAMELINK_COMPONENT kernels)
install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT kernels)

set(OMPIPE_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/ompipe)
install(EXPORT ompipe NAMESPACE ompipe:: FILE ompipe-config.cmake DESTINATION ${OMPIPE_PACKAGE_DIR} COMPONENT kernels)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/ompipe-config-version.cmake
  VERSION ${KERNELS_VERSION} COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ompipe-config-version.cmake DESTINATION ${OMPIPE_PACKAGE_DIR} COMPONENT kernels)

# The file finds its prefix from where it lies, so that an installation can be moved.
file(RELATIVE_PATH OMPIPE_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(ompipe_kernels.pc.in ompipe_kernels.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ompipe_kernels.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT kernels)
